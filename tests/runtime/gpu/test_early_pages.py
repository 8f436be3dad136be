"""Sequences longer than a device's pool, whose early pages lie on the host: the tokens are those of a pool with room, whichever way
steps read those pages."""

import dataclasses
import itertools
import logging
from collections.abc import Callable, Iterator

import pytest
import torch

from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.device_runner import DeviceRunner, RunnerLimits
from octavo_runtime.engine.early_costs import Way
from octavo_runtime.engine.early_pages import EarlyPages
from octavo_runtime.engine.pipeline import Pipeline
from octavo_runtime.engine.policy import Policy
from octavo_runtime.engine.scheduler import Scheduler
from octavo_runtime.model.attention import AttentionShape
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
)
from tests.runtime.gpu.inline_stream import InlineStream
from tests.runtime.gpu.random_weights import TINY
from tests.runtime.gpu.reference_parts import ReferenceParts
from tests.runtime.gpu.test_device_runner import SEEDED

BELOW = 8
SIZES = Sizes(pages=6)


@dataclasses.dataclass(frozen=True)
class Device:
    runner: DeviceRunner
    overflow: Overflow
    early: EarlyPages


def device_of(decoder: Decoder, most_tokens: int = SIZES.max_num_batched_tokens) -> Device:
    """With 6 pages in its pool and 8 below. most_tokens: of a step that the host attends for."""
    config, stream = decoder.config, InlineStream()
    shape = AttentionShape(config.heads, config.kv_heads, config.head_dim, PAGE, torch.float32)
    backend = ReferenceParts(shape)
    pool = new_pool(decoder, backend, SIZES.pages)
    overflow = Overflow(pool, BELOW)
    early = EarlyPages(overflow, backend, pool, shape, stream, most_tokens)
    limits = RunnerLimits(PAGE, SIZES.max_num_seqs, MAX_MODEL_LEN, SIZES.max_num_batched_tokens)
    return Device(DeviceRunner(decoder, backend, pool, host_sample, stream, limits, early), overflow, early)


@dataclasses.dataclass
class Choices:
    """What was asked for, and a way from these in turn."""

    ways: Iterator[Way]
    asked: list[tuple[Way, int, int]] = dataclasses.field(default_factory=list)

    def __call__(self, queries: int, pages: int) -> Way:
        self.asked.append((next(self.ways), queries, pages))
        return self.asked[-1][0]


@pytest.mark.parametrize("window", [None, 120], ids=["all of the context", "a window that ends in early pages"])
@pytest.mark.parametrize(
    "ways", [("attend",), ("bring",), ("attend", "bring", "bring", "attend", "attend")], ids="-".join
)
def test_a_sequence_longer_than_the_pool_has_the_tokens_of_one_with_room(
    ways: tuple[Way, ...], window: int | None
) -> None:
    decoder = random_decoder(dataclasses.replace(TINY, window=window))
    device, choices = device_of(decoder), Choices(itertools.cycle(ways))
    device.early.choice = choices
    requests = [
        ask("prompt", prompt("prompt", 130), SEEDED, max_tokens=20, seed=1),
        ask("answer", prompt("answer", 12), max_tokens=120),
        ask("both", prompt("both", 110), SEEDED, max_tokens=30, n=2, seed=5),
        ask("short", prompt("short", 12), max_tokens=20),
    ]
    given = answers(device.runner, requests, SIZES, overflow=device.overflow)
    assert given.tokens == answers(host_runner(decoder, Sizes()), requests, Sizes()).tokens
    assert {way for way, _, _ in choices.asked} == set(ways)
    assert {queries == 1 for _, queries, _ in choices.asked} == {True, False}
    assert max(pages for _, _, pages in choices.asked) > 3


def test_warm_up_measures_both_ways_and_leaves_no_trace(caplog: pytest.LogCaptureFixture) -> None:
    decoder = random_decoder()
    device, before = device_of(decoder), Choices(itertools.cycle(("bring",)))
    device.early.choice = before
    with caplog.at_level(logging.INFO, "octavo.engine"):
        device.runner.warm_up()
    told = [message for message in caplog.messages if message.startswith("pages below the pool: a step of")]
    assert [message.split()[7] for message in told] == ["1", "40"]
    assert not before.asked
    for queries, pages in ((1, 1), (1, 8), (40, 8)):
        assert device.early.choice(queries, pages) in ("attend", "bring")
    assert not before.asked  # it is another choice now
    requests = [ask("prompt", prompt("prompt", 130), SEEDED, max_tokens=20, seed=1)]
    given = answers(device.runner, requests, SIZES, overflow=device.overflow)
    assert given.tokens == answers(host_runner(decoder, Sizes()), requests, Sizes()).tokens


def test_steps_of_more_tokens_than_the_host_attends_for_are_brought_their_pages() -> None:
    decoder = random_decoder()
    device, choices = device_of(decoder, most_tokens=8), Choices(itertools.cycle(("attend",)))
    device.early.choice = choices
    request = ask("prompt", prompt("prompt", 130), SEEDED, max_tokens=20, seed=1)
    given = answers(device.runner, [request], SIZES, overflow=device.overflow)
    assert given.tokens == answers(host_runner(decoder, Sizes()), [request], Sizes()).tokens
    assert choices.asked
    assert all(queries <= 8 for _, queries, _ in choices.asked)


@pytest.mark.parametrize("way", ["attend", "bring"])
def test_an_aborted_one_gives_back_its_pages_and_the_next_is_as_ever(way: Way) -> None:
    decoder = random_decoder()
    device = device_of(decoder)
    device.early.choice = lambda queries, pages: way
    limits = Limits(MAX_MODEL_LEN, SIZES.pages, PAGE, TINY.vocab_size, 6, 100, None, overflow_pages=BELOW)
    pool, pipeline = BlockPool(SIZES.pages, PAGE, BELOW), Pipeline(device.runner)
    policy = Policy(SIZES.max_num_batched_tokens, prefill_percent=50)
    scheduler = Scheduler(pool, limits, policy, None, depth=pipeline.depth, overflow=device.overflow)
    scheduler.add(ask("gone", prompt("gone", 130), max_tokens=20))
    run(scheduler, pipeline, until=lambda: pool.used > SIZES.pages)
    scheduler.abort(["gone"])
    run(scheduler, pipeline, until=lambda: False)
    scheduler.audit()
    assert pool.used == 0
    request = ask("prompt", prompt("prompt", 130), SEEDED, max_tokens=20, seed=1)
    given = answers(device.runner, [request], SIZES, overflow=device.overflow)
    assert given.tokens == answers(host_runner(decoder, Sizes()), [request], Sizes()).tokens


def run(scheduler: Scheduler, pipeline: Pipeline, until: Callable[[], bool]) -> None:
    """Until then, or until there is no more to do; audited."""
    flying = 0
    while not until():
        plan = None if pipeline.full else scheduler.plan()
        scheduler.audit()
        if plan is not None:
            pipeline.submit(plan)
            flying += 1
        elif flying:
            scheduler.commit(pipeline.collect(), 0.0)
            flying -= 1
        else:
            return
    while flying:
        scheduler.commit(pipeline.collect(), 0.0)
        flying -= 1
