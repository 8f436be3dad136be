"""Time of each Triton kernel on a GPU, beside the copy bandwidth and the bf16 matrix peak measured in the same run.

    octavo bench kernels [NAME …] [--json FILE]
    python -m bench.kernels …                      the same

NAME is a file of this folder, such as rms_norm; without one all are measured, which takes about a minute.
"""

import argparse
import dataclasses
import importlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from bench.kernels.figures import Figures, Limits, figures, table
from bench.kernels.timing import copy_bandwidth, matmul_peak, time_s

OPS = (
    "decode_attention",
    "prefill_attention",
    "kv_write",
    "pages",
    "rms_norm",
    "rope",
    "silu_mul",
    "sampling",
    "matmul",
    "page_importance",
    "merge_parts",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 2 without a GPU."""
    parser = argparse.ArgumentParser(prog="octavo bench kernels", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(OPS)}; default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parsed = parser.parse_args(arguments)
    if unknown := sorted(set(parsed.names) - set(OPS)):
        parser.error(f"there is no kernel '{unknown[0]}': choose from {', '.join(OPS)}")
    if not torch.cuda.is_available():
        print("octavo bench kernels: needs a GPU that torch can use; torch sees none here", file=sys.stderr)
        return 2
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}", flush=True)
    limits = Limits(copy_bandwidth(), matmul_peak())
    print(f"copy {limits.bandwidth / 1e9:.0f} GB/s, bf16 product {limits.peak / 1e12:.0f} TFLOP/s", flush=True)
    rows = [row for op in OPS if op in (parsed.names or OPS) for row in measure(op, limits)]
    print(table(rows))
    if parsed.json is not None:
        parsed.json.write_text(json.dumps(_document(limits, rows), indent=1) + "\n", encoding="utf-8")
    return 0


def measure(op: str, limits: Limits) -> list[Figures]:
    """All cases of one file; their tensors are gone before the next file's are made."""
    cases = importlib.import_module(f"bench.kernels.{op}").cases()
    rows = [figures(case, time_s(case.run), limits) for case in cases]
    del cases
    torch.cuda.empty_cache()
    return rows


def _document(limits: Limits, rows: list[Figures]) -> dict[str, object]:
    return {
        "device": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "limits": dataclasses.asdict(limits),
        "kernels": [dataclasses.asdict(row) for row in rows],
    }


if __name__ == "__main__":
    sys.exit(main())
