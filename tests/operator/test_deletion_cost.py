import pytest

from octavo_operator.deletion_cost import EVERY_S, Turns, cost, marks
from octavo_operator.observed import PodView


def pod(uid: str, *, ready: bool = True, now: str | None = None, foreign: bool = False) -> PodView:
    return PodView(f"chat-{uid}", ready, False, "", uid=uid, deletion_cost=now, cost_is_foreign=foreign)


@pytest.mark.parametrize(
    ("load", "expected"), [(0.0, 0), (0.1, 100), (1 / 3, 100), (0.5, 200), (2 / 3, 200), (0.9, 300), (7.0, 300)]
)
def test_there_are_four_costs(load: float, expected: int) -> None:
    assert cost(load) == expected


def test_marks_pods_by_their_load() -> None:
    found = marks([pod("a"), pod("b"), pod("c", now="300")], {"a": 0.0, "b": 0.9, "c": 0.2})
    assert [(mark.pod.uid, mark.cost) for mark in found] == [("b", 300), ("c", 100)]
    assert found[0].annotations == {"controller.kubernetes.io/pod-deletion-cost": "300"}


@pytest.mark.parametrize(
    ("pods", "loads"),
    [
        pytest.param([pod("a")], {"a": 0.9}, id="there is only one"),
        pytest.param([pod("a"), pod("b", ready=False)], {"a": 0.9, "b": 0.9}, id="only one is ready"),
        pytest.param([pod("a"), pod("b")], {}, id="nobody was asked"),
        pytest.param([pod("a"), pod("b")], {"a": 0.0, "b": 0.0}, id="idle costs nothing without being told"),
        pytest.param([pod("a", now="200"), pod("b")], {"a": 0.4, "b": 0.0}, id="the same bucket"),
        pytest.param([pod("a", now="7", foreign=True), pod("b")], {"a": 0.9, "b": 0.0}, id="the cost is another's"),
    ],
)
def test_marks_nothing(pods: list[PodView], loads: dict[str, float]) -> None:
    assert marks(pods, loads) == []


def test_a_pod_is_marked_once_a_minute() -> None:
    now_s = 0.0
    turns = Turns(lambda: now_s)
    wanted = marks([pod("a"), pod("b")], {"a": 0.9, "b": 0.1})
    assert len(turns.take(wanted)) == 2
    now_s = EVERY_S - 1.0
    assert turns.take(wanted) == []
    assert turns.wait_s(wanted) == 1.0, "what waits is not forgotten"
    now_s = EVERY_S
    assert len(turns.take(wanted)) == 2
