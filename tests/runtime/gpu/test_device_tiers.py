"""Pages that leave a device's pool for the host's memory and come back, between steps in flight: the same tokens as without."""

import pytest

from octavo_runtime.engine.device_runner import DeviceRunner, RunnerLimits
from octavo_runtime.engine.tiers.block_file import BlockKind
from octavo_runtime.engine.tiers.chain import TierChain
from octavo_runtime.engine.tiers.device_mover import DeviceMover
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.overflow import Overflow
from tests.runtime.engine.tiny_engine import ask, prompt
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
from tests.runtime.gpu.test_device_runner import SEEDED, SHORT_ONES, crowd


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


def test_sequences_longer_than_the_pool_have_the_tokens_that_they_would_have_with_room(decoder: Decoder) -> None:
    sizes, backend, stream = Sizes(pages=6), reference_backend(decoder), InlineStream()
    pool = new_pool(decoder, backend, sizes.pages)
    overflow = Overflow(pool, 8)
    runner = DeviceRunner(decoder, backend, pool, host_sample, stream, runner_limits(sizes), overflow)
    runner.warm_up()
    requests = [
        ask("prompt", prompt("prompt", 130), SEEDED, max_tokens=20, seed=1),
        ask("answer", prompt("answer", 12), max_tokens=120),
        ask("short", prompt("short", 12), max_tokens=20),
    ]
    given = answers(runner, requests, sizes, overflow=overflow)
    assert given.tokens == answers(host_runner(decoder, Sizes()), requests, Sizes()).tokens
