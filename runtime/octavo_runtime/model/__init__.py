"""The model: its layers, its weights, its KV pages, its sampler. Knows tensors and nothing of requests."""
