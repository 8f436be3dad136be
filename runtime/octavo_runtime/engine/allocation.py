"""Which errors mean that memory could not be had."""

import torch


class AllocationError(Exception):
    """A step's memory could not be had. Nothing of the step is in the books; its runner has to be told everything anew."""


def is_allocation_failure(error: BaseException) -> bool:
    """torch's allocator for the CPU raises a plain RuntimeError."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
