"""The sections of `bench.paging`: each measures some of the figures that articles claim for paged attention and batching."""
