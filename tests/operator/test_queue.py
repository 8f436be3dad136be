import asyncio
from collections.abc import Callable, Coroutine

import pytest

from octavo_operator.queue import LONGEST_DELAY_S, KeyQueue


class Timers:
    """Stands for the loop's clock: what is to be called later is called when the test says."""

    def __init__(self) -> None:
        self.calls: list[tuple[float, Callable[[], None]]] = []

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        self.calls.append((delay_s, call))


def run(story: Coroutine[None, None, None]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(5):
            await story

    asyncio.run(in_time())


def test_hands_out_each_waiting_key_once_and_oldest_first() -> None:
    async def story() -> None:
        queue: KeyQueue[str] = KeyQueue()
        for key in ("a", "b", "a"):
            queue.add(key)
        assert len(queue) == 2
        assert [await queue.take(), await queue.take()] == ["a", "b"]
        assert len(queue) == 0

    run(story())


def test_a_key_added_while_worked_on_comes_once_more_and_not_before() -> None:
    async def story() -> None:
        queue: KeyQueue[str] = KeyQueue()
        queue.add("a")
        assert await queue.take() == "a"
        queue.add("a")
        queue.add("a")
        queue.add("b")
        assert await queue.take() == "b"
        queue.done("a")
        assert await queue.take() == "a"
        queue.done("a")
        assert len(queue) == 0

    run(story())


def test_a_taker_wakes_when_a_key_comes() -> None:
    async def story() -> None:
        queue: KeyQueue[str] = KeyQueue()
        taker = asyncio.create_task(queue.take())
        await asyncio.sleep(0)
        assert not taker.done()
        queue.add("a")
        assert await taker == "a"

    run(story())


def test_failures_come_back_after_doubling_delays_up_to_a_limit() -> None:
    async def story() -> None:
        timers = Timers()
        queue: KeyQueue[str] = KeyQueue(timers.call_later)
        queue.add("a")
        delays = []
        for _ in range(12):
            await queue.take()
            delays.append(queue.failed("a"))
            assert len(queue) == 0
            timers.calls.pop()[1]()
        assert delays[:4] == [1, 2, 4, 8]
        assert delays[-1] == LONGEST_DELAY_S

    run(story())


def test_a_key_that_fails_for_days_still_comes_back() -> None:
    """Doubled a thousand times, a delay is more than a float holds."""

    async def story() -> None:
        timers = Timers()
        queue: KeyQueue[str] = KeyQueue(timers.call_later)
        for _ in range(1100):
            queue.add("a")
            await queue.take()
            assert queue.failed("a") <= LONGEST_DELAY_S

    run(story())


def test_a_key_that_is_done_comes_back_when_it_asked_for_it() -> None:
    async def story() -> None:
        timers = Timers()
        queue: KeyQueue[str] = KeyQueue(timers.call_later)
        queue.add("a")
        queue.done(await queue.take(), again_s=4.0)
        [(delay_s, due)] = timers.calls
        assert (delay_s, len(queue)) == (4.0, 0)
        due()
        assert await queue.take() == "a"

    run(story())


def test_only_the_newest_ask_for_another_look_counts() -> None:
    async def story() -> None:
        timers = Timers()
        queue: KeyQueue[str] = KeyQueue(timers.call_later)
        for again_s in (60.0, 2.0, None):
            queue.add("a")
            queue.done(await queue.take(), again_s)
            if again_s == 2.0:
                timers.calls[0][1]()
                assert len(queue) == 0, "the look after 60 s is void since one after 2 s was asked for"
        timers.calls[1][1]()
        assert len(queue) == 0, "and that one since none is needed"

    run(story())


def test_a_success_forgets_earlier_failures() -> None:
    async def story() -> None:
        timers = Timers()
        queue: KeyQueue[str] = KeyQueue(timers.call_later)
        for outcome in ("failed", "done", "failed"):
            queue.add("a")
            await queue.take()
            queue.done("a") if outcome == "done" else queue.failed("a")
        assert [delay_s for delay_s, _ in timers.calls] == [1, 1]

    run(story())


def test_a_key_that_was_worked_on_rests_and_comes_once_for_all_that_was_added_meanwhile() -> None:
    async def story() -> None:
        timers = Timers()
        queue: KeyQueue[str] = KeyQueue(timers.call_later, rest_s=0.5)
        queue.add("a")
        queue.done(await queue.take())
        queue.add("a")
        queue.add("a")
        queue.add("b")
        assert await queue.take() == "b", "others do not wait for it"
        assert len(queue) == 1
        [(delay_s, rested)] = timers.calls
        assert delay_s == 0.5
        rested()
        assert await queue.take() == "a"
        assert len(queue) == 0

    run(story())


def test_a_key_that_rested_without_an_event_does_not_come_back() -> None:
    async def story() -> None:
        timers = Timers()
        queue: KeyQueue[str] = KeyQueue(timers.call_later, rest_s=0.5)
        queue.add("a")
        queue.done(await queue.take())
        timers.calls.pop()[1]()
        assert len(queue) == 0
        queue.add("a")
        assert await queue.take() == "a"

    run(story())


@pytest.mark.parametrize(
    ("waiting", "rest_s"),
    [pytest.param(9, 0.5, id="few"), pytest.param(40, 2.5, id="some"), pytest.param(1000, 10.0, id="many")],
)
def test_a_key_rests_longer_while_others_wait(waiting: int, rest_s: float) -> None:
    async def story() -> None:
        timers = Timers()
        queue: KeyQueue[int] = KeyQueue(timers.call_later, rest_s=0.5)
        for key in range(waiting + 1):
            queue.add(key)
        queue.done(await queue.take())
        assert [delay_s for delay_s, _ in timers.calls] == [rest_s]

    run(story())
