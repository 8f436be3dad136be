"""Throughput of the mixed workload on Octavo, alternated with other engines in one run: one table, with ratios.

    octavo bench serving [--model PATH] [--pairs 7] [--http] [--peer NAME=COMMAND …] [--slow-rounds 1]
    octavo bench serving --profile                            where a step's time goes
    python -m bench.serving …                                 the same

64 requests of 16 to 256 random tokens in and 16 to 256 out, greedy, end of sequence ignored, all at once; then one stream. Every
engine runs once in each round, in a process of its own. `--peer` names any other engine by a command that runs the same workload
and prints one line of JSON (bench/README.md); transformers' static batches are built in. Quote the ratios, with their spread.
"""

import argparse
import dataclasses
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.machine import machine
from bench.serving_rounds import Engine, Run, play
from bench.serving_run import positive
from bench.serving_table import OURS, line, table
from tests.runtime.models import smollm2_path

HTTP, STATIC = "octavo http", "transformers"
CHECKOUT = Path(__file__).resolve().parents[1]


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 1 if an engine failed."""
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if wrong := _wrong(parsed):
        parser.error(wrong)
    print(f"{parsed.model} on {machine()}", flush=True)
    if parsed.profile:
        from bench.step_profile import profile

        print(profile(parsed.model, parsed.requests))
        return 0
    runs = play(_engines(parsed), parsed.pairs, parsed.timeout, lambda run: print(line(run), flush=True))
    print(f"\n{table(runs, parsed.requests)}\n\n{_note(parsed, runs)}")
    return 1 if any(run.result is None for run in runs) else 0


def _engines(parsed: argparse.Namespace) -> list[Engine]:
    def ours(name: str, engine: str, *flags: str) -> Engine:
        workload = ["--requests", str(parsed.requests), *flags]
        command = (sys.executable, "-m", "bench.serving_run", engine, str(parsed.model.absolute()), *workload)
        return Engine(name, command, folder=CHECKOUT)

    engines = [ours(OURS, "octavo")]
    if parsed.http:
        engines.append(ours(HTTP, "http"))
    fast = [*engines, *parsed.peer]
    if parsed.taken:
        beside = f", {parsed.taken:g} taken"
        fast += [dataclasses.replace(engine, name=engine.name + beside, taken=parsed.taken) for engine in fast]
    slow = [*parsed.slow_peer, ours(STATIC, "static", "--repeats", "1")] if parsed.slow_rounds else []
    return [*fast, *(dataclasses.replace(engine, rounds=parsed.slow_rounds) for engine in slow)]


def _note(parsed: argparse.Namespace, runs: Sequence[Run]) -> str:
    busy = max(run.others for run in runs)
    quiet = "" if busy < 0.1 else f" Other processes took up to {100 * busy:.0f} % of the CPUs: not to be quoted."
    return (
        f"medians (least–greatest) of {parsed.pairs} rounds; a run's figure is the best of its repeats of the batch, "
        f"a ratio is taken within a round.{quiet}"
    )


def _wrong(parsed: argparse.Namespace) -> str | None:
    """What would only show after minutes."""
    names = [engine.name for engine in _engines(parsed)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        return f"--peer {twice}: there is an engine of that name already: give another"
    if not parsed.model.exists():
        return f"--model {parsed.model} does not exist: give a GGUF file or a model folder"
    if parsed.slow_peer and not parsed.slow_rounds:
        return (
            f"--slow-peer {parsed.slow_peer[0].name} never runs with --slow-rounds 0: raise that or leave the peer out"
        )
    return None


def _peer(text: str) -> Engine:
    name, equals, command = text.partition("=")
    words = shlex.split(command)
    if not equals or not name or not words:
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=COMMAND")
    return Engine(name, tuple(words))


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not between 0 and 1, such as 0.1")
    return share


def _rounds(text: str) -> int:
    return 0 if text == "0" else positive(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="octavo bench serving", description=__doc__.splitlines()[0] if __doc__ else None, allow_abbrev=False
    )
    parser.add_argument(
        "--model", type=Path, default=smollm2_path(), help="GGUF file or folder (default: SmolLM2-135M)"
    )
    parser.add_argument("--requests", type=positive, default=64, help="requests in the batch (default: 64)")
    parser.add_argument("--pairs", type=positive, default=7, help="interleaved rounds (default: 7)")
    parser.add_argument("--http", action="store_true", help="also Octavo's server with one client program")
    parser.add_argument(
        "--peer",
        type=_peer,
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="another engine: a command that prints its figures as one JSON line; may be given several times",
    )
    parser.add_argument(
        "--slow-peer",
        type=_peer,
        action="append",
        default=[],
        metavar="NAME=COMMAND",
        help="the same, for the first rounds only, as --slow-rounds says",
    )
    parser.add_argument(
        "--slow-rounds",
        type=_rounds,
        default=1,
        metavar="N",
        help="rounds in which slow engines run too: --slow-peer and transformers' static batches (default: 1)",
    )
    parser.add_argument(
        "--taken",
        type=_share,
        default=0.0,
        metavar="SHARE",
        help="each engine but slow ones also beside a process that takes this share of one core, such as 0.1",
    )
    parser.add_argument(
        "--timeout", type=float, default=1800.0, metavar="SECONDS", help="most for one run of an engine (default: 1800)"
    )
    parser.add_argument("--profile", action="store_true", help="only where the time of Octavo's steps goes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
