"""The queue in order of rank, what it counts, and how fast it drains."""

import pytest

from octavo_runtime.engine.admission import refusal
from octavo_runtime.engine.request import Request, Sequence
from octavo_runtime.engine.waiting import DrainRate, WaitingQueue
from octavo_runtime.messages import AddRequest
from tests.runtime.engine.paper import GREEDY, Paper


def sequence(arrival: int, priority: int = 0, index: int = 0, prompt: int = 3, choices: int = 1) -> Sequence:
    asked = AddRequest(str(arrival), [1] * prompt, GREEDY, 0, priority=priority)
    return Sequence(
        Request(asked, arrival, 0.0, b"", forecast_output=10), index, list(asked.prompt_ids), choices=choices
    )


def test_orders_by_priority_then_arrival_then_index() -> None:
    queue = WaitingQueue()
    in_order = [
        sequence(5, priority=-1),
        sequence(1),
        sequence(2, index=0),
        sequence(2, index=1),
        sequence(0, priority=1),
    ]
    for one in (in_order[3], in_order[4], in_order[1], in_order[0], in_order[2]):
        queue.add(one)
    assert list(queue) == in_order
    assert queue.first(2) == in_order[:2]
    queue.remove(in_order[2])
    assert list(queue) == [*in_order[:2], *in_order[3:]]


def test_who_has_nothing_to_compute_hides_nobody() -> None:
    """Beams that wait for their siblings are passed over, however many they are."""
    queue = WaitingQueue()
    for index in range(100):
        queue.add(sequence(1, index=index))
    for one in list(queue)[:-1]:
        one.offered = True
    assert queue.first(64) == list(queue)[-1:]


def test_counts_prompts_and_expected_tokens_for_each_choice() -> None:
    queue = WaitingQueue()
    single, wide = sequence(1, prompt=5), sequence(2, prompt=7, choices=3)
    queue.add(single)
    queue.add(wide)
    assert (queue.prompt_tokens, queue.expected_tokens) == (5 + 21, 15 + 51)
    queue.remove(single)
    assert (queue.prompt_tokens, queue.expected_tokens) == (21, 51)


def test_what_was_counted_in_is_counted_out() -> None:
    """A request's forecast may change while one of its sequences waits."""
    queue = WaitingQueue()
    one = sequence(1)
    queue.add(one)
    one.request.forecast_output = 400
    queue.remove(one)
    assert (len(queue), queue.prompt_tokens, queue.expected_tokens) == (0, 0, 0)


@pytest.mark.parametrize(
    ("left_s", "queued", "now_s", "retry_after_s"),
    [
        pytest.param([], 10, 0.0, 30, id="nobody left so far"),
        pytest.param([0.0], 10, 31.0, 30, id="nobody left lately"),
        pytest.param(range(10), 20, 10.0, 10, id="half of the queue at one a second"),
        pytest.param(range(10), 21, 10.0, 11, id="rounded up"),
        pytest.param(range(10), 1, 10.0, 1, id="at least a second"),
        pytest.param([0.0], 1000, 20.0, 600, id="at most ten minutes"),
        pytest.param([0.0, 0.1], 1, 0.2, 3, id="few tell little"),
        pytest.param(range(10), 2, 20.0, 11, id="nobody has left since"),
        pytest.param([5.0] * 10, 40, 5.0, 2, id="a burst counts as of a second"),
        pytest.param([0.0] * 50 + [40.0] * 5, 8, 42.0, 8, id="only the last half minute counts"),
    ],
)
def test_when_to_come_back(left_s: list[float], queued: int, now_s: float, retry_after_s: int) -> None:
    rate = DrainRate()
    for one in left_s:
        rate.left(one)
    assert rate.retry_after_s(queued, now_s) == retry_after_s


def test_a_refusal_tells_the_measured_time() -> None:
    """One request a second gets its place; of ten that wait half are gone in five seconds."""
    paper = Paper(seqs=1)
    for index in range(20):
        paper.add(str(index), prompt=2, output=1)
    for _ in range(10):
        paper.step()
        paper.now_s += 1.0
    queued = paper.scheduler.queued()
    assert (queued.sequences, queued.prompt_tokens) == (10, 20)
    error = refusal(AddRequest("late", [1], GREEDY, 0), paper.limits, queued)
    assert error is None
    assert queued.retry_after_s == 5


def test_a_preempted_sequence_is_no_new_place() -> None:
    """Only first places count as drained."""
    paper = Paper(pages=6, page_size=4)
    paper.mislead()
    paper.add("old", prompt=8, output=16)
    paper.add("young", prompt=4, output=8)
    paper.run()
    assert paper.stats.preemptions_total > 0
    paper.now_s = 2.0
    assert paper.scheduler.queued().retry_after_s == 1  # nobody waits
    assert len(paper.scheduler._drain._left_s) == 2
