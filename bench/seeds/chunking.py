"""What computing a very long prompt in chunks costs that prompt, and what it saves the streams beside it.

The model is a seeded one with a context of 65,536 tokens, so small that a pass over the prompt takes seconds. The back end in
plain torch computes masked products too: one pass over n tokens costs it n², chunks about half of that. So the cost is also told
for each product that was computed.
"""

import dataclasses
import statistics

from bench.seeds.arithmetic import bearable_prompt, computed_products, longest_gap_s
from bench.seeds.driving import at_once, drive, greedy
from bench.seeds.figure import Figure, Settings, progress
from bench.seeds.models import VOCAB_SIZE, engine_of, long_context_model
from bench.seeds.trace import Arrival
from bench.workload import prompt
from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.memory import available_bytes

PROMPT_TOKENS = 32768
CHUNKS_TOKENS = (512, 2048)
STREAMS, STREAM_PROMPT_TOKENS, STREAM_OUTPUT_TOKENS = 4, 16, 8192
STREAMS_ALONE_S = 0.5  # the streams run by themselves first
_KV_BYTES = 64 << 20


@dataclasses.dataclass(frozen=True)
class Way:
    """One way to compute the prompt: an engine, and seconds for each round."""

    name: str
    chunk: int  # tokens
    engine: Engine
    alone_s: list[float] = dataclasses.field(default_factory=list)
    beside_s: list[float] = dataclasses.field(default_factory=list)
    gap_s: list[float] = dataclasses.field(default_factory=list)


def chunking(settings: Settings) -> list[Figure]:
    length = bearable_prompt(available_bytes(), round(PROMPT_TOKENS * min(1.0, settings.scale)))
    ways = [*(_chunked(settings, length, chunk) for chunk in CHUNKS_TOKENS), _one_pass(settings, length)]
    for pair in range(settings.pairs):
        for way in ways:
            _measure(way, length, seed=pair)
            progress(
                f"chunking: {way.name}, round {pair + 1}: first token of {length:,} after {way.alone_s[-1]:.2f} s alone, "
                f"{way.beside_s[-1]:.2f} s beside {STREAMS} streams, whose longest gap was {way.gap_s[-1]:.3f} s"
            )
    return _figures(ways, length)


def _chunked(settings: Settings, length: int, chunk: int) -> Way:
    return Way(f"chunks of {chunk}", chunk, _engine(settings, length, max_num_batched_tokens=chunk))


def _one_pass(settings: Settings, length: int) -> Way:
    flags = {"max_num_batched_tokens": _context(length), "prefill_percent": 100, "chunked_prefill": False}
    return Way("one pass", length, _engine(settings, length, **flags))


def _context(length: int) -> int:
    return max(length + 64, STREAM_PROMPT_TOKENS + STREAM_OUTPUT_TOKENS)


def _engine(settings: Settings, length: int, **flags: object) -> Engine:
    model = long_context_model(settings)
    fixed = {
        "max_model_len": _context(length),
        "kv_cache_memory": _KV_BYTES,
        "prefix_caching": False,
        "max_num_seqs": 8,
    }
    return engine_of(model, **fixed, **flags).engine


def _measure(way: Way, length: int, seed: int) -> None:
    long_request = greedy("long", (prompt(length, VOCAB_SIZE, seed), 2))
    streams = [(prompt(STREAM_PROMPT_TOKENS, VOCAB_SIZE, index), STREAM_OUTPUT_TOKENS) for index in range(STREAMS)]
    alone = drive(way.engine, [Arrival(0.0, long_request)], until="long")
    way.alone_s.append(alone.answers["long"].token_s[0])
    load = [*at_once(streams), Arrival(STREAMS_ALONE_S, long_request)]
    beside = drive(way.engine, load, until="long")
    first_s = beside.answers["long"].token_s[0]
    way.beside_s.append(first_s - STREAMS_ALONE_S)
    way.gap_s.append(
        max(longest_gap_s(beside.answers[str(index)].token_s, STREAMS_ALONE_S, first_s) for index in range(STREAMS))
    )


def _figures(ways: list[Way], length: int) -> list[Figure]:
    *chunked, one_pass = ways
    return [*(_cost(way, one_pass, length) for way in chunked), *(_gap(way, one_pass) for way in chunked)]


def _cost(way: Way, one_pass: Way, length: int) -> Figure:
    ratios = [ours / theirs for ours, theirs in zip(way.alone_s, one_pass.alone_s, strict=True)]
    cost = 100 * (statistics.median(ratios) - 1)
    products = computed_products(length, way.chunk) / computed_products(length, one_pass.chunk)
    each = 100 * (statistics.median(ratios) / products - 1)
    return Figure(
        f"latency of a {length:,}-token prompt, {way.name} against one pass",
        "about +15 %",
        None,
        cost,
        f"{cost:+.0f} % ({_median(one_pass.alone_s)} → {_median(way.alone_s)} s)",
        f"seeded 1-layer Llama with 65,536 positions; this back end computes masked products too, so chunks have "
        f"{products:.0%} of one pass's; for each product {each:+.0f} %",
    )


def _gap(way: Way, one_pass: Way) -> Figure:
    saving = statistics.median(theirs / ours for ours, theirs in zip(way.gap_s, one_pass.gap_s, strict=True))
    return Figure(
        f"longest gap of {STREAMS} streams beside it, one pass / {way.name}",
        "–",
        None,
        saving,
        f"{saving:.0f} × ({_median(one_pass.gap_s)} → {_median(way.gap_s)} s)",
        f"its first token then comes after {_median(way.beside_s)} s in chunks, {_median(one_pass.beside_s)} s in one pass",
    )


def _median(values: list[float]) -> str:
    return f"{statistics.median(values):.2f}"
