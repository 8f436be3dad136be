"""The soak's tables, and its verdict: every sentence of `faults` is a reason to fail."""

import collections
import dataclasses
from collections.abc import Iterator

from bench.soak_client import End
from bench.soak_footprint import MIB, Footprint, growth_mib
from bench.soak_run import Memory, Tally

ENDS: tuple[End, ...] = ("finished", "expired", "refused", "left", "wrong")
JUDGED_FROM = 5_000  # requests: fewer say nothing of memory, for allocators and caches are still growing to their size
MOST_GROWTH_MIB = (
    8.0  # over the last two thirds: noise of the allocators is 1 to 2; 100,000 requests at 126 lost bytes each are 8
)
SHOWN_WRONG = 10


@dataclasses.dataclass(frozen=True)
class Process:
    """One process of the server, before the first and after the last request."""

    name: str
    pid_before: int
    pid_after: int
    before: Footprint
    after: Footprint


@dataclasses.dataclass(frozen=True)
class Rest:
    """What the idle server says of itself at the end."""

    block_utilization: float
    running: int
    waiting: int
    in_flight: int
    restarts: int
    exit_code: int
    counts: dict[str, float]  # what happened on the way


def tables(tally: Tally, processes: list[Process], memory: Memory, rest: Rest, busy: int, compared: int) -> str:
    lines = [*_requests(tally), "", *_processes(processes, memory), ""]
    counts = {"times busy (503)": busy, "fixed questions compared": compared} | rest.counts
    lines += [f"{name:<34} {value:>12,.0f}" for name, value in counts.items()]
    lines.append(
        f"at the end: {rest.block_utilization:g} of the blocks in use, {rest.running} running, {rest.waiting} waiting, "
    )
    lines[-1] += f"{rest.in_flight} in flight; the server ended with {rest.exit_code}"
    return "\n".join(lines)


def _requests(tally: Tally) -> Iterator[str]:
    yield f"{'requests':<34} " + " ".join(f"{end:>9}" for end in ENDS)
    for kind in sorted({kind for kind, _ in tally.ends}):
        yield f"{kind:<34} " + " ".join(f"{tally.ends[kind, end] or '':>9}" for end in ENDS)
    sums: collections.Counter[str] = collections.Counter()
    for (_, end), count in tally.ends.items():
        sums[end] += count
    yield f"{f'all {tally.done:,}':<34} " + " ".join(f"{sums[end]:>9,}" for end in ENDS)


def _processes(processes: list[Process], memory: Memory) -> Iterator[str]:
    heads = [
        f"{'process':<8} {'MiB before':>10} {'after':>7} {'MiB/10,000 requests':>20}",
        "handles",
        "sockets",
        "threads",
    ]
    yield " ".join(f"{head:>10}" for head in heads)
    for one in processes:
        slope, _ = growth_mib(memory.samples[one.name])
        pairs = [
            f"{start} → {end}"
            for start, end in (
                (len(one.before.handles), len(one.after.handles)),
                (one.before.sockets, one.after.sockets),
                (one.before.threads, one.after.threads),
            )
        ]
        yield (
            f"{one.name:<8} {one.before.resident_bytes / MIB:>10.1f} {one.after.resident_bytes / MIB:>7.1f} {slope:>+20.3f} "
            f"{one.after.cpu_s - one.before.cpu_s:>10.1f} " + " ".join(f"{pair:>10}" for pair in pairs)
        )


def faults(tally: Tally, processes: list[Process], memory: Memory, rest: Rest) -> list[str]:
    """What leaked, was lost, or was answered otherwise than it should be; empty for a good run."""
    found = [*tally.wrong[:SHOWN_WRONG]]
    if len(tally.wrong) > SHOWN_WRONG:
        found.append(f"and {len(tally.wrong) - SHOWN_WRONG} more wrong answers")
    if tally.done != tally.wanted:
        found.append(f"{tally.wanted - tally.done:,} of {tally.wanted:,} requests have no end: the run was given up")
    found += _rest_faults(rest)
    for process in processes:
        found += _process_faults(process)
        _, grown_mib = growth_mib(memory.samples[process.name])
        if tally.wanted >= JUDGED_FROM and grown_mib > MOST_GROWTH_MIB:
            found.append(
                f"{process.name}: grew by {grown_mib:.1f} MiB over the last two thirds, more than {MOST_GROWTH_MIB:g}"
            )
    return found


def _rest_faults(rest: Rest) -> Iterator[str]:
    for name in ("block_utilization", "running", "waiting", "in_flight", "restarts", "exit_code"):
        value = getattr(rest, name)
        if value != 0:
            yield f"the idle server has {name.replace('_', ' ')} {value:g} and not 0"


def _process_faults(process: Process) -> Iterator[str]:
    if process.pid_before != process.pid_after:
        yield f"{process.name}: process {process.pid_before} became {process.pid_after}"
        return
    before, after = process.before, process.after
    if after.threads != before.threads:
        yield f"{process.name}: {before.threads} threads became {after.threads}"
    if len(after.handles) != len(before.handles):
        more = collections.Counter(after.handles) - collections.Counter(before.handles)
        yield f"{process.name}: {len(before.handles)} handles became {len(after.handles)}; new: {sorted(more)[:10]}"
