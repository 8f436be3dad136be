"""Which errors mean that memory could not be had."""

import ctypes

import torch

from octavo_runtime.model.collectives import RankError

# What torch's allocator for the CPU says, and oneDNN where it finds none for its code or its scratch. oneDNN says the same of what
# it cannot do at all: then smaller steps fail too, down to the smallest, and the error is raised.
_SAID = ("can't allocate memory", "could not create a primitive", "could not execute a primitive")


class AllocationError(Exception):
    """A step's memory could not be had. Nothing of the step is in the books; its runner has to be told everything anew."""


def is_allocation_failure(error: BaseException) -> bool:
    """Not of one from a collective: the ranks are apart then."""
    if isinstance(error, RankError):
        return False
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID)


def give_back() -> None:
    """What the heap keeps and nobody uses goes back to the kernel, whom others ask for pages: oneDNN for its code, other ranks."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc
    if trim is not None:
        trim(0)
