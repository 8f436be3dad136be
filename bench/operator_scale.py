"""How the operator grows with the number of services, on a real API server: time to converge, API calls, memory, writes when idle.

    octavo bench operator_scale [--services 100 300 1000] [--idle-s 30] [--floor]
    python -m bench.operator_scale …                                      the same

It needs the one-node cluster (`make cluster`) to itself: nodes and pods are played by kwok, controllers and scheduler run with
higher limits than their own (20 requests a second would be all that is measured). Each number of services has a fresh operator of
the working tree. `converged`: from the first service's creation until all were seen to be Ready. Requests are all but watches. With
another busy process every figure rises; on few cores the API server and the controllers take most of the time: `--floor` tells
how much of it they need for the same Deployments and Services without an operator.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.arguments import positive
from bench.machine import machine
from bench.operator_scale_floor import measure_floor
from bench.operator_scale_run import GPU_MEMORY, INSPECTION, Figures, Fleet, made, measure
from tests.cluster.access import resolve
from tests.cluster.fake_nodes import fake_nodes
from tests.cluster.kubectl import Kubectl
from tests.cluster.onenode import control_plane, lifecycle

NODES = ("scale-1", "scale-2", "scale-3", "scale-4")
PER_NODE = {"pods": "1000", "nvidia.com/gpu": "1000", "cpu": "4000", "memory": "16Ti"}
REQUESTS_PER_S = 500
LONGEST_S = 120.0
MOST_BYTES = 200 * 2**20

HEAD = (
    "| services | created | converged | Ready | requests each | writes each | reconciles each | operator CPU "
    "| control plane CPU | memory at most | idle: writes, requests |\n|---|---|---|---|---|---|---|---|---|---|---|"
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="octavo bench operator_scale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--services", type=positive, nargs="+", default=[100, 300, 1000], help="(default: 100 300 1000)"
    )
    parser.add_argument(
        "--idle-s", type=positive, default=30, help="seconds for which it is watched idle (default: 30)"
    )
    parser.add_argument("--limit-s", type=positive, default=600, help="longest time to converge (default: 600)")
    parser.add_argument(
        "--floor", action="store_true", help="also the Deployments and Services of the last number, without an operator"
    )
    parsed = parser.parse_args(arguments)
    if not lifecycle.is_healthy():
        parser.error("the one-node cluster does not run: start it by `make cluster`")
    print(f"{machine()}\n", flush=True)
    print(HEAD, flush=True)
    found = _measured(parsed.services, parsed.idle_s, parsed.limit_s, floor=parsed.floor)
    return 0 if all(map(good, found)) else 1


def _measured(numbers: Sequence[int], idle_s: float, limit_s: float, *, floor: bool) -> list[Figures]:
    cluster = Kubectl(resolve({}))
    with tempfile.TemporaryDirectory(prefix="octavo-scale-", dir=Path.home()) as name:
        folder = Path(name)
        control_plane.restart_controllers(lifecycle.PROCESSES, REQUESTS_PER_S)
        try:
            with (
                fake_nodes(cluster, folder, NODES, capacity=PER_NODE, labels=GPU_MEMORY, inspection=INSPECTION),
                made(cluster, Fleet(0).namespaces),
            ):
                log = folder / "operator.log"
                found = [told(measure(cluster.access, Fleet(number), idle_s, limit_s, log)) for number in numbers]
                if floor:
                    print(f"\n{measure_floor(cluster.access, Fleet(numbers[-1]), limit_s)}", flush=True)
                return found
        finally:
            control_plane.restart_controllers(lifecycle.PROCESSES)


def good(figures: Figures) -> bool:
    """Whether it is what the project wants of a thousand services."""
    return (
        figures.ready == figures.services
        and figures.converged_s <= LONGEST_S
        and figures.idle_writes == 0
        and figures.peak_bytes <= MOST_BYTES
    )


def told(figures: Figures) -> Figures:
    """The figures, printed as a row of the table: the next ones take minutes."""
    print(row(figures), flush=True)
    return figures


def row(figures: Figures) -> str:
    each = [f"{count / figures.services:.1f}" for count in (figures.requests, figures.writes, figures.reconciles)]
    cells = [
        f"{figures.services:,}",
        f"{figures.created_s:.0f} s",
        f"{figures.converged_s:.0f} s",
        f"{figures.ready:,}",
        *each,
        f"{figures.cpu_s:.0f} s",
        f"{figures.cluster_cpu_s:.0f} s",
        f"{figures.peak_bytes / 2**20:.0f} MiB",
        f"{figures.idle_writes:.0f}, {figures.idle_requests:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
