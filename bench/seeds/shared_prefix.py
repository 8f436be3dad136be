"""KV pages that requests with one shared prefix hold, against what they need and against no sharing."""

import dataclasses

from bench.seeds.arithmetic import shared_pages
from bench.seeds.driving import at_once, drive
from bench.seeds.figure import Figure, Settings, Target, progress
from bench.seeds.models import VOCAB_SIZE, counting_model, engine_of
from bench.workload import Request, with_prefix

REQUESTS, PREFIX_TOKENS, OUTPUT_TOKENS = 50, 1024, 32
PAGE_TOKENS = 16
_KV_BYTES = 64 << 20  # holds all requests without sharing
_SHARED: dict[str, object] = {"max_num_batched_tokens": 512}
# Without sharing there is much more to compute: larger steps, so that all requests are live at once there too.
_ALONE: dict[str, object] = {"max_num_batched_tokens": 4096, "prefill_percent": 100, "prefix_caching": False}


@dataclasses.dataclass(frozen=True)
class Held:
    """The peak of one run."""

    pages: int
    page_bytes: int
    running: int
    preemptions: int

    @property
    def mebibytes(self) -> float:
        return self.pages * self.page_bytes / 2**20


def shared_prefix(settings: Settings) -> list[Figure]:
    work = with_prefix(settings.count(REQUESTS), PREFIX_TOKENS, OUTPUT_TOKENS, VOCAB_SIZE)
    progress(f"shared-prefix: {len(work)} requests with one prefix of {PREFIX_TOKENS:,} tokens, then without sharing")
    shared, alone = held(settings, work, _SHARED), held(settings, work, _ALONE)
    needed = shared_pages(
        PREFIX_TOKENS, [len(prompt) - PREFIX_TOKENS + OUTPUT_TOKENS for prompt, _ in work], PAGE_TOKENS
    )
    ratio = shared.pages / needed
    saved = alone.pages / shared.pages
    return [
        Figure(
            f"KV of {len(work)} requests with one prefix / (prefix once + tails)",
            "–",
            Target("≤", 1.05, " ×"),
            ratio,
            f"{ratio:.3f} × ({shared.pages:,} of {needed:,} pages)",
            f"prefix {PREFIX_TOKENS:,}, tails 16–64, outputs {OUTPUT_TOKENS} tokens, page {PAGE_TOKENS}; peak of referenced "
            f"pages, {shared.running} running at once",
        ),
        Figure(
            "the same without sharing / with",
            "2.2 × (48 → 22 GB)",
            None,
            saved,
            f"{saved:.1f} × ({alone.mebibytes:.1f} → {shared.mebibytes:.1f} MiB)",
            f"--no-prefix-caching, {alone.running} running at once",
        ),
    ]


def held(settings: Settings, work: list[Request], flags: dict[str, object]) -> Held:
    llm = engine_of(
        counting_model(settings), block_size=str(PAGE_TOKENS), kv_cache_memory=_KV_BYTES, max_num_seqs=64, **flags
    )
    info = llm.engine.info
    trace = drive(llm.engine, at_once(work))
    return Held(
        pages=max(step.stats.blocks_used for step in trace.steps),
        page_bytes=info.kv_cache_bytes // (info.num_blocks + 1),  # with the sink page
        running=max(step.stats.running for step in trace.steps),
        preemptions=trace.preemptions,
    )
