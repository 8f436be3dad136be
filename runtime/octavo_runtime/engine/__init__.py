"""The engine: requests, the scheduler, the block pool, and the loop that drives the model. Only the runner knows tensors."""
