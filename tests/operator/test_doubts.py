import dataclasses

from octavo_operator.doubts import GRACE_S, Doubts, Refusal
from octavo_operator.service import Key
from octavo_operator.strategy import Standing

KEY = Key("demo", "chat")
STAND = Standing(2, new=(None,))
FULL = Refusal("0/1 nodes are available: 1 Insufficient cpu.", 1)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_believes_the_scheduler_after_a_while() -> None:
    clock = Clock()
    doubts = Doubts(clock)
    assert doubts.weigh(KEY, "a", STAND, FULL, seems_free=True) == STAND
    clock.now_s += GRACE_S
    believed = doubts.weigh(KEY, "a", STAND, FULL, seems_free=True)
    assert (believed.refused, believed.words, believed.doubted) == (1, FULL.words, True)


def test_an_ending_pod_may_still_make_room() -> None:
    clock = Clock()
    doubts = Doubts(clock)
    doubts.weigh(KEY, "a", STAND, FULL, seems_free=True)
    clock.now_s += GRACE_S
    ending = dataclasses.replace(STAND, ending=1)
    assert doubts.weigh(KEY, "a", ending, FULL, seems_free=True) == ending
    assert doubts.weigh(KEY, "a", STAND, FULL, seems_free=True) == STAND, "the time begins anew"


def test_a_refusal_that_the_count_foresaw_is_no_reason_to_doubt_it() -> None:
    clock = Clock()
    doubts = Doubts(clock)
    doubts.weigh(KEY, "a", STAND, FULL, seems_free=False)
    clock.now_s += GRACE_S
    assert not doubts.weigh(KEY, "a", STAND, FULL, seems_free=False).doubted


def test_a_refusal_that_no_pod_is_in_the_way_of_is_none_either() -> None:
    clock = Clock()
    doubts = Doubts(clock)
    elsewhere = Refusal("0/1 nodes are available: 1 node(s) had volume node affinity conflict.")
    doubts.weigh(KEY, "a", STAND, elsewhere, seems_free=True)
    clock.now_s += GRACE_S
    believed = doubts.weigh(KEY, "a", STAND, elsewhere, seems_free=True)
    assert (believed.doubted, believed.refused, believed.words) == (False, 0, elsewhere.words)


def test_doubts_last_for_the_template_that_raised_them() -> None:
    clock = Clock()
    doubts = Doubts(clock)
    doubts.weigh(KEY, "a", STAND, FULL, seems_free=True)
    clock.now_s += GRACE_S
    doubts.weigh(KEY, "a", STAND, FULL, seems_free=True)
    assert doubts.weigh(KEY, "a", STAND, Refusal(), seems_free=True).doubted, "also once a pod was placed"
    assert not doubts.weigh(KEY, "b", STAND, Refusal(), seems_free=True).doubted


def test_forgets() -> None:
    clock = Clock()
    doubts = Doubts(clock)
    doubts.weigh(KEY, "a", STAND, FULL, seems_free=True)
    doubts.forget(KEY)
    clock.now_s += GRACE_S
    assert doubts.weigh(KEY, "a", STAND, FULL, seems_free=True) == STAND
