"""Continuous against static batching on the same engine, with the long tail of answers that static batches wait for."""

import statistics

from bench.seeds.figure import Figure, Settings
from bench.seeds.latency import latency, latency_figure
from bench.seeds.models import VOCAB_SIZE, engine_of, serving_model
from bench.seeds.throughput import busy_figure, throughput, throughput_figures
from bench.workload import long_tail

REQUESTS, BATCH = 48, 16
LOAD_OF_STATIC = 0.7  # arrivals, as a share of what static batches serve when always full: a load that both sustain
_KV_BYTES = 512 << 20


def batching(settings: Settings) -> list[Figure]:
    # No prefix cache: a round runs the same prompts several times.
    llm = engine_of(
        serving_model(settings), kv_cache_memory=_KV_BYTES, max_model_len=1024, max_num_seqs=BATCH, prefix_caching=False
    )
    work = long_tail(max(2 * BATCH, settings.count(REQUESTS)), VOCAB_SIZE)  # fewer would not wait
    name = settings.model.name if settings.model else "seeded 4-layer Llama"
    rounds = throughput(settings, llm.engine, work, BATCH)
    static_per_s = len(work) / statistics.median(each.dropping.wall_s for each in rounds)
    mixed = latency(settings, llm.engine, work, LOAD_OF_STATIC * static_per_s, BATCH)
    load = f"Poisson arrivals at {LOAD_OF_STATIC:.0%} of what full static batches serve"
    return [
        *throughput_figures(rounds, work, BATCH, name),
        latency_figure(mixed, work, load),
        busy_figure(rounds, BATCH),
    ]
