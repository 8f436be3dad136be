"""How a decoding step's time grows with batch, context and depth, beside what the machine's memory and products allow.

    octavo bench scaling [--only NAME …] [--plot out.png] [--model PATH] [--repeats 7]
    python -m bench.scaling …                                 the same

Batch 1 to 128 over 256 tokens each; context 128 to 8,192 of 4 sequences; 4 to 32 layers of a seeded Llama of SmolLM2's width, 8
sequences of 256 tokens. A step is the layers, the head and the likeliest token of each row, without the scheduler. The points of a
curve are measured in turns. The last lines say which curve, if any, grows faster than its floor explains. CPU only.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the engine process sets it; before torch is loaded

import transformers

from bench.machine import machine
from bench.scaling_curves import batches, contexts, depths, measured
from bench.scaling_floor import Machine, Point, Step, measured_machine, verdict
from bench.scaling_plot import draw
from bench.seeds.picture import can_draw
from bench.serving_run import positive
from tests.runtime.models import smollm2_path

CURVES: dict[str, Callable[[Path, Path], list[Step]]] = {"batch": batches, "context": contexts, "layers": depths}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if wrong := _wrong(parsed):
        parser.error(wrong)
    transformers.utils.logging.disable_progress_bar()
    print(f"{parsed.model} on {machine()}", flush=True)
    curves: dict[str, list[Point]] = {}
    limits: dict[str, Machine] = {}  # of each curve: measured right beside it, for machines drift
    for name in parsed.only or CURVES:
        with tempfile.TemporaryDirectory(prefix="octavo-bench-") as folder:
            steps = CURVES[name](parsed.model, Path(folder))
            limits[name] = measured_machine()
            curves[name] = measured(steps, parsed.repeats)
        print(f"\n{table(name, curves[name], limits[name])}", flush=True)
    print("\n" + "\n".join(verdict(name, points, limits[name]) for name, points in curves.items()))
    if parsed.plot:
        draw(curves, limits, parsed.plot)
        print(f"picture: {parsed.plot}")
    return 0


def table(name: str, points: Sequence[Point], limits: Machine) -> str:
    """One curve, with the two parts of its floor."""
    lines = [
        f"{limits.bytes_per_s / 1e9:.1f} GB/s read, {limits.flops_per_s / 1e9:.0f} GFLOP/s in products; milliseconds a step",
        f"{name:>8} {'measured':>9} {'floor':>8} {'of it memory':>13} {'compute':>8} {'measured / floor':>17}",
    ]
    for point in points:
        memory_ms, compute_ms = 1e3 * point.work.memory_s(limits), 1e3 * point.work.compute_s(limits)
        floor_ms, step_ms = 1e3 * point.floor_s(limits), 1e3 * point.step_s
        lines.append(
            f"{point.x:>8} {step_ms:>9.2f} {floor_ms:>8.2f} {memory_ms:>13.2f} {compute_ms:>8.2f} {step_ms / floor_ms:>17.2f}"
        )
    return "\n".join(lines)


def _wrong(parsed: argparse.Namespace) -> str | None:
    """What would only show after minutes."""
    if not parsed.model.exists():
        return f"--model {parsed.model} does not exist: give a GGUF file or a model folder"
    if parsed.plot and not can_draw():
        return "--plot needs matplotlib: `make setup` installs it with the development dependencies"
    if parsed.plot and not parsed.plot.absolute().parent.is_dir():
        return f"--plot {parsed.plot}: its folder does not exist: make it first"
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="octavo bench scaling", description=__doc__.splitlines()[0] if __doc__ else None, allow_abbrev=False
    )
    parser.add_argument("--only", nargs="+", choices=list(CURVES), metavar="NAME", help=f"of: {', '.join(CURVES)}")
    parser.add_argument(
        "--model", type=Path, default=smollm2_path(), help="of batch and context (default: SmolLM2-135M)"
    )
    parser.add_argument(
        "--repeats", type=positive, default=7, help="steps at each point; the fastest counts (default: 7)"
    )
    parser.add_argument("--plot", type=Path, metavar="PNG", help="also draw the curves with their floors")
    return parser


if __name__ == "__main__":
    sys.exit(main())
