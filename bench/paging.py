"""The figures that articles claim for paged attention and continuous batching, measured here: one command, a table at the end.

    octavo bench paging [--only NAME …] [--plot out.png] [--model PATH]
    python -m bench.paging …                                                the same

Counts (pages, sessions, slots) come from a tiny seeded model: they do not depend on what a model says or how fast it is. Times
come from a small seeded one, or the one that `--model` names, as medians of alternated pairs: a machine may drift by a factor of
two between minutes, two runs side by side do not.
"""

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the engine process sets it; before torch is loaded

import octavo_runtime
from bench.arguments import positive
from bench.machine import machine
from bench.seeds import picture
from bench.seeds.batching import batching
from bench.seeds.chunking import chunking
from bench.seeds.figure import Figure, Settings, progress, table
from bench.seeds.sessions import sessions, utilization, waste
from bench.seeds.shared_prefix import shared_prefix

SECTIONS: dict[str, Callable[[Settings], list[Figure]]] = {
    "shared-prefix": shared_prefix,
    "sessions": sessions,
    "waste": waste,
    "utilization": utilization,
    "batching": batching,
    "chunking": chunking,
}
PICTURE = "picture"  # for `--only`: the picture and no figures


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if wrong := _wrong(parsed):
        parser.error(wrong)
    started_s = time.monotonic()
    progress(f"octavo {octavo_runtime.__version__} on {machine()}")
    with tempfile.TemporaryDirectory(prefix="octavo-bench-") as folder:
        settings = Settings(Path(folder), parsed.model, parsed.pairs, parsed.scale)
        if parsed.plot:
            picture.draw(settings, parsed.plot)
        figures = [figure for name in parsed.only or SECTIONS if name != PICTURE for figure in SECTIONS[name](settings)]
    if figures:
        progress(f"\n{table(figures)}\n")
    progress(f"took {time.monotonic() - started_s:.0f} s" + _caveat(parsed.scale))
    return 0


def _wrong(parsed: argparse.Namespace) -> str | None:
    """What would only show after minutes."""
    if PICTURE in (parsed.only or []) and not parsed.plot:
        return f"--only {PICTURE} draws nothing without --plot: say where the picture goes"
    if parsed.plot and not picture.can_draw():
        return "--plot needs matplotlib: `make setup` installs it with the development dependencies"
    if parsed.plot and not parsed.plot.absolute().parent.is_dir():
        return f"--plot {parsed.plot}: its folder does not exist: make it first"
    if parsed.model and not parsed.model.exists():
        return f"--model {parsed.model} does not exist: give a GGUF file or a model folder"
    return None


def _caveat(scale: float) -> str:
    return "" if scale == 1.0 else f"; --scale {scale:g}: a quick look, figures not to be quoted"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="octavo bench paging", description=__doc__.splitlines()[0] if __doc__ else None, allow_abbrev=False
    )
    parser.add_argument(
        "--only",
        nargs="+",
        choices=[*SECTIONS, PICTURE],
        metavar="NAME",
        help=f"sections to run, of: {', '.join([*SECTIONS, PICTURE])} (default: all)",
    )
    parser.add_argument("--plot", type=Path, metavar="PNG", help="also draw the blocks of one mixed run over time")
    parser.add_argument("--model", type=Path, help="model of the batching section (default: a seeded 4-layer Llama)")
    parser.add_argument("--pairs", type=positive, default=3, help="alternated pairs of timed runs (default: 3)")
    parser.add_argument("--scale", type=_factor, default=1.0, help="factor on the counts of requests (default: 1)")
    return parser


def _factor(text: str) -> float:
    value = float(text)
    if not 0 < value <= 10:
        raise argparse.ArgumentTypeError(f"'{text}' is not a factor above 0 and up to 10")
    return value


if __name__ == "__main__":
    sys.exit(main())
