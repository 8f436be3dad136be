"""A picture of one mixed run: how the KV blocks fill and empty over time, who runs, who waits, and when somebody has to yield.

The run is made to show all of it: bursts of chats, some with a shared prefix, over a pool that is too small for them.
"""

import importlib.util
import itertools
from pathlib import Path
from typing import TYPE_CHECKING

from bench.seeds.driving import drive, greedy
from bench.seeds.figure import Settings, progress
from bench.seeds.models import VOCAB_SIZE, counting_model, engine_of
from bench.seeds.trace import Arrival, Trace
from bench.workload import chats, with_prefix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PAGE_TOKENS = 16
KV_BYTES = 8 << 20
BURSTS, BURST_S = 3, 6.0
CONTEXT_TOKENS = 2048
CHATS, SHARERS, PREFIX_TOKENS, PREFIX_OUTPUT_TOKENS = 48, 16, 512, 64
IN_USE, CACHED, FREE, RUNNING, WAITING, PREEMPTED = "#2f6690", "#9cc5a1", "#eceff1", "#d1495b", "#8d6a9f", "#f18f01"


def can_draw() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


def draw(settings: Settings, path: Path) -> None:
    """Run the mixed load and write its picture, a PNG, to `path`. Needs matplotlib."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    trace = mixed_run(settings)
    figure, (above, below) = pyplot.subplots(
        2, 1, sharex=True, figsize=(11, 6.5), height_ratios=(3, 2), layout="constrained"
    )
    _draw_blocks(above, trace)
    _draw_sequences(below, trace)
    above.set_title(
        f"KV blocks over time: {len(trace.answers)} requests in {BURSTS} bursts, {trace.preemptions} preemptions, "
        f"{trace.steps[0].stats.blocks_total} blocks of {PAGE_TOKENS} tokens"
    )
    figure.savefig(path, dpi=130, format="png")
    pyplot.close(figure)
    progress(f"picture: {path}")


def mixed_run(settings: Settings) -> Trace:
    llm = engine_of(counting_model(settings), block_size=str(PAGE_TOKENS), kv_cache_memory=KV_BYTES, max_num_seqs=128)
    progress(
        f"picture: {BURSTS} bursts of chats and of requests with one prefix over {llm.engine.info.num_blocks} blocks"
    )
    return drive(llm.engine, bursts(settings))


def bursts(settings: Settings) -> list[Arrival]:
    """Chats, then requests that share a prefix, at the start of each burst. The prefix is the same in all of them."""
    chat_count, sharer_count = settings.count(CHATS), settings.count(SHARERS)
    sharers = with_prefix(BURSTS * sharer_count, PREFIX_TOKENS, PREFIX_OUTPUT_TOKENS, VOCAB_SIZE)
    load = []
    for burst in range(BURSTS):
        work = chats(chat_count, VOCAB_SIZE, CONTEXT_TOKENS, seed=burst)
        work += sharers[burst * sharer_count : (burst + 1) * sharer_count]
        load += [Arrival(burst * BURST_S, greedy(f"{burst}-{index}", request)) for index, request in enumerate(work)]
    return load


def _draw_blocks(axes: "Axes", trace: Trace) -> None:
    at_s = [step.at_s for step in trace.steps]
    used = [step.stats.blocks_used for step in trace.steps]
    cached = [step.stats.blocks_cached for step in trace.steps]
    free = [step.stats.blocks_total - step.stats.blocks_used - step.stats.blocks_cached for step in trace.steps]
    axes.stackplot(
        at_s,
        used,
        cached,
        free,
        labels=("in use", "cached, findable", "free"),
        colors=(IN_USE, CACHED, FREE),
        step="post",
    )
    axes.set_ylabel("KV blocks")
    axes.set_ylim(0, trace.steps[0].stats.blocks_total)
    axes.margins(x=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def _draw_sequences(axes: "Axes", trace: Trace) -> None:
    at_s = [step.at_s for step in trace.steps]
    axes.step(at_s, [step.stats.running for step in trace.steps], where="post", color=RUNNING, label="running")
    axes.step(at_s, [step.stats.waiting for step in trace.steps], where="post", color=WAITING, label="waiting")
    preempted = preemption_times_s(trace)
    if preempted:
        axes.plot(
            preempted, [0] * len(preempted), "^", color=PREEMPTED, markersize=8, clip_on=False, label="preemption"
        )
    axes.set_ylabel("sequences")
    axes.set_xlabel("seconds")
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1))


def preemption_times_s(trace: Trace) -> list[float]:
    """When the count of preemptions grew, once for each step."""
    pairs = itertools.pairwise(trace.steps)
    return [after.at_s for before, after in pairs if after.stats.preemptions_total > before.stats.preemptions_total]
