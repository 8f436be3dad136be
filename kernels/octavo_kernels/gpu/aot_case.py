"""What a kernel module says about itself to the ahead-of-time compile (`aot.py`): one configuration that service launches."""

import dataclasses
from collections.abc import Mapping

import triton


@dataclasses.dataclass(frozen=True)
class AotCase:
    """One kernel in one configuration.

    signature: the type of each run-time argument by name, in the kernel's order, as triton writes it ("*bf16", "i32", "fp32").
    constexprs: the value of each `tl.constexpr` argument by name. name: unique, the row's key in `footprints.json`.
    enable_fp_fusion: as the launch passes it: whether a·b + c may become one rounding.
    """

    name: str
    kernel: triton.JITFunction
    signature: Mapping[str, str]
    constexprs: Mapping[str, object]
    num_warps: int = 4
    num_stages: int = 2
    enable_fp_fusion: bool = True
