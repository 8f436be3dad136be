"""Pages that leave a device's pool for the host's memory and come back, between steps in flight: the same tokens as without."""

import pytest

from octavo_runtime.engine.device_runner import DeviceRunner, RunnerLimits
from octavo_runtime.engine.tiers.block_file import BlockKind
from octavo_runtime.engine.tiers.chain import TierChain
from octavo_runtime.engine.tiers.device_mover import DeviceMover
from octavo_runtime.model.decoder import Decoder
from tests.runtime.gpu.devices import (
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
from tests.runtime.gpu.test_device_runner import SHORT_ONES, crowd


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return random_decoder()


def runner_limits(sizes: Sizes) -> RunnerLimits:
    return RunnerLimits(PAGE, sizes.max_num_seqs, MAX_MODEL_LEN, sizes.max_num_batched_tokens)


def test_swapped_sequences_go_on_with_the_tokens_that_they_would_have_had(decoder: Decoder) -> None:
    sizes, backend = Sizes(pages=12), reference_backend(decoder)
    pool = new_pool(decoder, backend, sizes.pages)
    runner = DeviceRunner(decoder, backend, pool, host_sample, InlineStream(), runner_limits(sizes))
    mover = DeviceMover(pool, runner.stream, InlineStream())
    store = TierChain(mover, BlockKind(bytes(32), mover.block_bytes), rows=64)
    requests = [*SHORT_ONES, *crowd()]
    given = answers(runner, requests, sizes, store)
    store.close()
    assert given.preemptions > 0
    assert given.most_in_flight == 2
    assert store.stats()[0].hits_total > 0
    assert given.tokens == answers(host_runner(decoder, sizes), requests, sizes).tokens
