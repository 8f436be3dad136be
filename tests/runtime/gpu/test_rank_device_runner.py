"""The device's runner of two ranks, one step ahead, gives the tokens of one rank's, whatever is asked."""

import queue

import torch

from octavo_runtime.engine.device_runner import RunnerLimits
from octavo_runtime.engine.pipeline import Pipeline
from octavo_runtime.engine.plan import StepPlan
from octavo_runtime.engine.ranks.device_runner import RankDeviceRunner
from octavo_runtime.model.collectives import Collectives
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.parallel_compute import ParallelCompute
from octavo_runtime.model.sharded_weights import ShardedCheckpoint
from octavo_runtime.model.sharding import Shard
from octavo_runtime.model.torch_compute import TorchCompute
from octavo_runtime.model.weights import WeightReader
from tests.runtime.gpu.devices import (
    CPU,
    MAX_MODEL_LEN,
    PAGE,
    Sizes,
    answers,
    host_runner,
    host_sample,
    new_pool,
    random_decoder,
    reference_backend,
)
from tests.runtime.gpu.inline_stream import InlineStream
from tests.runtime.gpu.random_weights import TINY, RandomCheckpoint
from tests.runtime.gpu.test_device_runner import mixed
from tests.runtime.model.rank_threads import on_ranks

SIZES = Sizes()
LIMITS = RunnerLimits(PAGE, SIZES.max_num_seqs, MAX_MODEL_LEN, SIZES.max_num_batched_tokens)
Plans = queue.SimpleQueue[StepPlan | None]  # None: there are no more


class TellingRunner(RankDeviceRunner):
    """Rank 0's, which gives its plans to the other rank too."""

    plans: Plans

    def submit(self, plan: StepPlan) -> None:
        self.plans.put(plan)
        super().submit(plan)


def new_runner(kind: type[RankDeviceRunner], ranks: Collectives) -> RankDeviceRunner:
    part = ShardedCheckpoint(RandomCheckpoint(TINY, CPU), Shard(ranks.rank, ranks.size))
    weights = WeightReader(part, torch.float32, lambda percent: None)
    decoder = Decoder(part.config, weights, MAX_MODEL_LEN, CPU, ParallelCompute(TorchCompute(), ranks))
    backend = reference_backend(decoder)
    pool = new_pool(decoder, backend, SIZES.pages)
    return kind(decoder, backend, pool, host_sample, InlineStream(), LIMITS, ranks)


def test_two_ranks_give_the_tokens_of_one() -> None:
    expected = answers(host_runner(random_decoder(), SIZES), mixed(), SIZES)
    plans: Plans = queue.SimpleQueue()

    def lead(ranks: Collectives) -> dict[tuple[str, int], list[int]]:
        runner = new_runner(TellingRunner, ranks)
        assert isinstance(runner, TellingRunner)
        runner.plans = queue.SimpleQueue()  # warming up is planned by each rank
        runner.warm_up()
        runner.plans = plans
        try:
            return answers(runner, mixed(), SIZES).tokens
        finally:
            plans.put(None)

    def follow(ranks: Collectives) -> dict[tuple[str, int], list[int]]:
        runner = new_runner(RankDeviceRunner, ranks)
        runner.warm_up()
        pipeline = Pipeline(runner)
        while (plan := plans.get()) is not None:
            if pipeline.full:
                pipeline.collect()
            pipeline.submit(plan)
        return {}

    given = on_ranks(2, lambda ranks: follow(ranks) if ranks.rank else lead(ranks))[0]
    assert given == expected.tokens
