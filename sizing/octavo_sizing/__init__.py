"""How much memory a model needs, and how much a GPU or a pod leaves for its KV cache: arithmetic that both halves share.

Pure functions over small values, of the standard library alone. The runtime takes its sharding rule from here and answers `octavo
fit` with it; the operator answers the condition MemoryFits.
"""
