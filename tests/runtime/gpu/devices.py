"""Runners of both kinds over one tiny model, and a loop that takes requests through the real scheduler to their ends."""

import dataclasses
import time

import torch
from torch import Tensor

from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.block_store import BlockStore
from octavo_runtime.engine.device_runner import DeviceRunner, RunnerLimits
from octavo_runtime.engine.pipeline import Pipeline, Runner
from octavo_runtime.engine.policy import Policy
from octavo_runtime.engine.prefix_index import CacheIdentity
from octavo_runtime.engine.runner import ModelRunner
from octavo_runtime.engine.scheduler import Scheduler
from octavo_runtime.messages import AddRequest, Sampling
from octavo_runtime.model.attention import AttentionShape, ReferenceBackend
from octavo_runtime.model.compute import Compute
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.device_sampler import DeviceRows
from octavo_runtime.model.device_weights import DeviceCheckpoint
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.overflow import Overflow
from octavo_runtime.model.sampler import Row, sample
from octavo_runtime.model.weights import WeightReader
from tests.runtime.gpu.inline_stream import InlineStream
from tests.runtime.gpu.random_weights import TINY, RandomCheckpoint

CPU = torch.device("cpu")
PAGE = 16
MAX_MODEL_LEN = 160


@dataclasses.dataclass(frozen=True)
class Sizes:
    pages: int = 64
    max_num_seqs: int = 6
    max_num_batched_tokens: int = 40


def host_sample(logits: Tensor, rows: DeviceRows) -> Tensor:
    """A `DeviceSampler` by the host's sampler."""
    parameters = zip(
        rows.temperature.tolist(), rows.top_p.tolist(), rows.top_k.tolist(), rows.min_p.tolist(), strict=True
    )
    seeds = [seed % 2**64 for seed in rows.seed.tolist()]
    asked = [
        Row(Sampling(*values), seed, position)
        for values, seed, position in zip(parameters, seeds, rows.position.tolist(), strict=True)
    ]
    return torch.tensor([draw.tokens[0] for draw in sample(logits, asked)])


def random_decoder(
    config: ModelConfig = TINY,
    device: torch.device = CPU,
    compute: Compute | None = None,
    dtype: torch.dtype = torch.float32,
) -> Decoder:
    """The same weights on every device."""
    weights = WeightReader(DeviceCheckpoint(RandomCheckpoint(config, CPU), device), dtype, lambda percent: None)
    return Decoder(config, weights, MAX_MODEL_LEN, device, compute)


def reference_backend(decoder: Decoder) -> ReferenceBackend:
    config = decoder.config
    return ReferenceBackend(AttentionShape(config.heads, config.kv_heads, config.head_dim, PAGE, torch.float32))


def new_pool(decoder: Decoder, backend: ReferenceBackend, pages: int) -> KvPool:
    return KvPool(decoder.config.layers, pages, backend.page_bytes, CPU)


def host_runner(decoder: Decoder, sizes: Sizes) -> ModelRunner:
    backend = reference_backend(decoder)
    pool = new_pool(decoder, backend, sizes.pages)
    return ModelRunner(decoder, backend, pool, PAGE, sizes.max_num_seqs, MAX_MODEL_LEN)


def inline_runner(decoder: Decoder, sizes: Sizes, stream: InlineStream | None = None) -> DeviceRunner:
    backend = reference_backend(decoder)
    pool = new_pool(decoder, backend, sizes.pages)
    limits = RunnerLimits(PAGE, sizes.max_num_seqs, MAX_MODEL_LEN, sizes.max_num_batched_tokens)
    return DeviceRunner(decoder, backend, pool, host_sample, stream or InlineStream(), limits)


@dataclasses.dataclass
class Answers:
    """What each sequence of the requests was given, by request and index, and what it took."""

    tokens: dict[tuple[str, int], list[int]] = dataclasses.field(default_factory=dict)
    preemptions: int = 0
    most_in_flight: int = 0


def answers(
    runner: Runner,
    requests: list[AddRequest],
    sizes: Sizes,
    store: BlockStore | None = None,
    overflow: Overflow | None = None,
) -> Answers:
    """Run the requests to their ends; all pages must return."""
    limits = Limits(
        MAX_MODEL_LEN, sizes.pages, PAGE, TINY.vocab_size, sizes.max_num_seqs, max_queued=100, max_queued_tokens=None
    )
    pool = BlockPool(sizes.pages, PAGE, overflow.pages if overflow is not None else 0)
    identity = CacheIdentity(b"weights", "reference", PAGE, "rope")
    policy = Policy(sizes.max_num_batched_tokens, prefill_percent=50)
    pipeline = Pipeline(runner)
    scheduler = Scheduler(pool, limits, policy, identity, depth=pipeline.depth, store=store, overflow=overflow)
    for request in requests:
        scheduler.add(request)
    result, in_flight = Answers(), 0
    while scheduler.has_work or in_flight:
        while not pipeline.full and (plan := scheduler.plan()) is not None:
            pipeline.submit(plan)
            in_flight += 1
        result.most_in_flight = max(result.most_in_flight, in_flight)
        if not in_flight:
            time.sleep(scheduler.gathering_s())  # for pages from the store
            continue
        outputs, stats = scheduler.commit(pipeline.collect(), 0.0)
        in_flight -= 1
        result.preemptions = stats.preemptions_total
        for output in outputs:
            result.tokens.setdefault((output.id, output.index), []).extend(output.token_ids)
    assert pool.used == 0
    return result
