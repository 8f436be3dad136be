"""What a file of this folder says of one measurement of its kernel."""

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True)
class KernelCase:
    """`run` launches the kernel once, on tensors made before, and may be captured into a CUDA graph.

    bytes: the least that it has to move between memory and chip; flops: the least floating point operations, a product and a sum
    being two (0 where they never matter).
    """

    name: str
    run: Callable[[], None]
    bytes: int
    flops: int
