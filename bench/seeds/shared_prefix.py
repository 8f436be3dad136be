"""KV pages that requests with one shared prefix hold, against what they need and against no sharing."""

import dataclasses

from bench.seeds.arithmetic import worst_sharing
from bench.seeds.driving import at_once, drive
from bench.seeds.figure import Figure, Settings, Target, progress
from bench.seeds.models import VOCAB_SIZE, counting_model, engine_of
from bench.seeds.trace import Trace
from bench.workload import Request, with_prefix
from octavo_runtime.messages import Stats

REQUESTS, PREFIX_TOKENS, OUTPUT_TOKENS = 50, 1024, 32
PAGE_TOKENS = 16
_KV_BYTES = 64 << 20  # holds all requests without sharing
_SHARED: dict[str, object] = {"max_num_batched_tokens": 512}
# Without sharing there is much more to compute: larger steps, so that all requests are live at once there too.
_ALONE: dict[str, object] = {"max_num_batched_tokens": 4096, "prefill_percent": 100, "prefix_caching": False}


@dataclasses.dataclass(frozen=True)
class Held:
    """One run and what a page of it weighs."""

    trace: Trace
    page_bytes: int

    @property
    def peak(self) -> Stats:
        return max((step.stats for step in self.trace.steps), key=lambda stats: stats.blocks_used)

    @property
    def peak_mebibytes(self) -> float:
        return self.peak.blocks_used * self.page_bytes / 2**20


def shared_prefix(settings: Settings) -> list[Figure]:
    work = with_prefix(settings.count(REQUESTS), PREFIX_TOKENS, OUTPUT_TOKENS, VOCAB_SIZE)
    progress(f"shared-prefix: {len(work)} requests with one prefix of {PREFIX_TOKENS:,} tokens, then without sharing")
    shared, alone = held(settings, work, _SHARED), held(settings, work, _ALONE)
    used, needed = worst_sharing(
        shared.trace, PREFIX_TOKENS, [len(prompt) - PREFIX_TOKENS for prompt, _ in work], PAGE_TOKENS
    )
    saved = alone.peak.blocks_used / shared.peak.blocks_used
    return [
        Figure(
            f"KV of {len(work)} requests with one prefix / (prefix once + tails)",
            "–",
            Target("≤", 1.05, " ×"),
            used / needed,
            f"{used / needed:.3f} × ({used:,} / {needed:,} pages)",
            f"prefix {PREFIX_TOKENS:,}, tails 16–64, outputs {OUTPUT_TOKENS} tokens, page {PAGE_TOKENS}; at the worst step "
            f"with nobody waiting, {shared.peak.running} running at once",
        ),
        Figure(
            "the same without sharing / with",
            "2.2 × (48 → 22 GB)",
            None,
            saved,
            f"{saved:.1f} × ({alone.peak_mebibytes:.1f} → {shared.peak_mebibytes:.1f} MiB)",
            f"peak of referenced pages; --no-prefix-caching, {alone.peak.running} running at once",
        ),
    ]


def held(settings: Settings, work: list[Request], flags: dict[str, object]) -> Held:
    llm = engine_of(
        counting_model(settings), block_size=str(PAGE_TOKENS), kv_cache_memory=_KV_BYTES, max_num_seqs=64, **flags
    )
    info = llm.engine.info
    return Held(drive(llm.engine, at_once(work)), info.kv_cache_bytes // (info.num_blocks + 1))  # with the sink page
