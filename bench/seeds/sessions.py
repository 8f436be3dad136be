"""Chat sessions under full load: how many run at once, which slots of their pages are empty, how full the pool is.

The memory is what transformers' static cache takes for `CONTIGUOUS` sessions, the sink page included.
"""

import dataclasses
import functools

from bench.seeds.arithmetic import contiguous_sessions, mean, wasted_share
from bench.seeds.driving import at_once, drive
from bench.seeds.figure import Figure, Settings, Target, progress
from bench.seeds.models import VOCAB_SIZE, counting_model, engine_of
from bench.seeds.static_cache import session_bytes
from bench.seeds.trace import Trace
from bench.workload import chats

CONTIGUOUS = 15  # the articles' sessions a card before paging
CONTEXT_TOKENS = 2048
SESSIONS = 200
WASTE_TARGETS_PERCENT = {16: 4.0, 32: 7.0}


@dataclasses.dataclass(frozen=True)
class Load:
    """One run under full load at one page size."""

    page_tokens: int
    memory_bytes: int
    contiguous: int
    blocks: int
    trace: Trace
    lengths: str


def sessions(settings: Settings) -> list[Figure]:
    load = full_load(settings, 16)
    peak = max(step.stats.running for step in load.trace.steps)
    average = mean([stats.running for stats in load.trace.while_waiting()])
    ratio = average / load.contiguous
    return [
        Figure(
            "sessions at equal KV memory, paged / contiguous",
            "3.5 × (15 → 52)",
            Target("≥", 3.5, " ×"),
            ratio,
            f"{ratio:.2f} × ({load.contiguous} → {average:.1f}; peak {peak})",
            f"mean while work waits; {load.lengths}; {load.memory_bytes / 2**20:.0f} MiB of KV = {load.contiguous} × transformers' "
            f"StaticCache of {CONTEXT_TOKENS:,} tokens; page {load.page_tokens}; {load.trace.preemptions} preemptions",
        )
    ]


def waste(settings: Settings) -> list[Figure]:
    return [_waste(full_load(settings, page), percent) for page, percent in WASTE_TARGETS_PERCENT.items()]


def _waste(load: Load, target_percent: float) -> Figure:
    steps = [step.stats for step in load.trace.steps]
    value = 100 * wasted_share(steps, load.page_tokens)
    return Figure(
        f"slots wasted in allocated pages, page size {load.page_tokens}",
        "–",
        Target("<", target_percent, " %"),
        value,
        f"{value:.2f} %",
        f"mean over {len(steps):,} steps; {load.lengths}",
    )


def utilization(settings: Settings) -> list[Figure]:
    load = full_load(settings, 16)
    steps = load.trace.while_waiting()
    value = 100 * mean([stats.blocks_used / stats.blocks_total for stats in steps])
    return [
        Figure(
            "KV blocks in use while work waits",
            "> 85 %",
            Target(">", 85.0, " %"),
            value,
            f"{value:.1f} %",
            f"mean over {len(steps):,} steps; {load.lengths}; {load.trace.preemptions} preemptions",
        )
    ]


@functools.cache
def full_load(settings: Settings, page_tokens: int) -> Load:
    """All sessions submitted at once, run to the end: the same run serves several figures."""
    model = counting_model(settings)
    work = chats(settings.count(SESSIONS), VOCAB_SIZE, CONTEXT_TOKENS)
    session = session_bytes(model, CONTEXT_TOKENS)
    memory = CONTIGUOUS * session
    progress(f"full load: {len(work)} chats at page size {page_tokens}")
    llm = engine_of(
        model,
        block_size=str(page_tokens),
        kv_cache_memory=memory,
        max_model_len=CONTEXT_TOKENS,
        max_num_seqs=256,
        max_num_batched_tokens=512,
    )
    trace = drive(llm.engine, at_once(work))
    prompts, outputs = mean([len(prompt) for prompt, _ in work]), mean([output for _, output in work])
    return Load(
        page_tokens,
        memory,
        contiguous_sessions(memory, session),
        llm.engine.info.num_blocks,
        trace,
        f"log-normal chats, mean {prompts:.0f} tokens in and {outputs:.0f} out",
    )
