"""Rollouts by `Auto` in thousands of small worlds: none stands still while anything could bring it on, and none goes lower than it
has to.
"""

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.operator.rollout_world import Pod, World

OLD, NEW = 0, 1
# Rounds in which every part acts once; no rollout here takes as many.
MANY_ROUNDS = 100


@st.composite
def worlds(draw: st.DrawFn, *, same_size: bool) -> World:
    """Old pods that are placed and ready, loading or crashing, or wait for a place, on a few nodes that others use too."""
    nodes = {f"n{index}": draw(st.integers(1, 8)) for index in range(draw(st.integers(1, 3)))}
    old_gpus = draw(st.integers(1, 4))
    wanted = draw(st.integers(1, 4))
    world = World(
        nodes=nodes,
        foreign={name: draw(st.integers(0, gpus)) for name, gpus in nodes.items()},
        gpus={OLD: old_gpus, NEW: old_gpus if same_size else draw(st.integers(1, 8))},
        wanted=wanted,
        target=NEW,
        sets={OLD: draw(st.integers(0, wanted + 1))},
    )
    for _ in range(world.sets[OLD]):
        open_nodes = [name for name in nodes if world.free(name) >= old_gpus]
        placed = draw(st.sampled_from(open_nodes)) if open_nodes else None
        fate = draw(st.sampled_from(["ready", "ready", "loading", "crashing"]))
        world.pods.append(
            Pod(OLD, placed, ready=placed is not None and fate == "ready", never_ready=fate == "crashing")
        )
    return world


def act(world: World, chance: random.Random, *, at_once: bool) -> None:
    """One event. `at_once`: the operator has seen everything before the Deployment's controller acts; else when it comes to it."""

    def deployment() -> bool:
        if at_once:
            world.decide()
        return world.deployment()

    events: list[Callable[[], bool]] = [
        deployment,
        lambda: world.replica_sets(chance),
        lambda: world.schedule(chance),
        lambda: world.load(chance),
        lambda: world.end(chance),
    ]
    if not at_once:
        events.append(world.decide)
    chance.choice(events)()


def settle(world: World, chance: random.Random, check: Callable[[], None] = lambda: None) -> None:
    """Every part acts in turn until none has anything to do; `check` is asked after each act."""
    parts: list[Callable[[], bool]] = [
        world.decide,
        world.deployment,
        lambda: world.replica_sets(chance),
        lambda: world.schedule(chance),
        lambda: world.load(chance),
        lambda: world.end(chance),
    ]
    for _ in range(MANY_ROUNDS):
        acted = False
        for part in parts:
            acted |= part()
            check()
        if not acted:
            return
    raise AssertionError(f"still moving: {world}")


def check_done(world: World) -> None:
    """All new pods run and no old one; or not one more would fit, however many old ones stopped; or the new ones crash, and then
    old ones are best left alone.
    """
    stand = world.standing()
    if world.available(world.target) == world.wanted:
        assert not stand.old
    elif not any(pod.never_ready for pod in world.active(world.target)):
        assert world.room().slots(stand.old_placed) == 0 or stand.missing == 0


@settings(max_examples=100, deadline=None)
@given(worlds(same_size=False), st.integers(0, 2**32).map(random.Random), st.integers(0, 60))
def test_no_rollout_stands_still_while_anything_could_bring_it_on(
    world: World, chance: random.Random, events: int
) -> None:
    for _ in range(events):
        act(world, chance, at_once=False)
    settle(world, chance)
    check_done(world)


@settings(max_examples=100, deadline=None)
@given(worlds(same_size=True), st.integers(0, 2**32).map(random.Random), st.integers(0, 60))
def test_never_fewer_pods_answer_than_room_allows(world: World, chance: random.Random, events: int) -> None:
    """With a spare place none is missed; without one, one at a time, and those that did not answer anyway go first."""
    world.decide()
    answering = min(world.available(), world.wanted)
    least = answering if world.choice.strategy == "Surge" else max(0, answering - 1)

    def check() -> None:
        assert world.available() >= least

    for _ in range(events):
        act(world, chance, at_once=True)
        check()
    settle(world, chance, check)
    check_done(world)


@settings(max_examples=100, deadline=None)
@given(worlds(same_size=False), st.integers(0, 2**32).map(random.Random), st.integers(0, 60))
def test_a_revert_keeps_the_pods_that_it_finds(world: World, chance: random.Random, events: int) -> None:
    """Whatever the rollout had come to: of the earlier template, what it had not yet decided to stop is not stopped any more."""
    for _ in range(events):
        act(world, chance, at_once=True)
    world.target = OLD
    kept = [pod for pod in world.active(OLD) if pod.ready]
    surplus = len(world.active(OLD)) > min(world.wanted, world.sets[OLD])

    def check() -> None:
        assert surplus or not any(pod.ending for pod in kept)

    settle(world, chance, check)
    check_done(world)


@settings(max_examples=100, deadline=None)
@given(worlds(same_size=True), st.integers(0, 2**32).map(random.Random), st.integers(0, 100))
def test_the_strategy_does_not_flap_while_only_the_rollout_itself_moves(
    world: World, chance: random.Random, events: int
) -> None:
    """As long as there are old pods: at rest it is always Surge."""
    taken: list[str] = []
    for _ in range(events):
        world.decide()
        if world.standing().old and taken[-1:] != [world.choice.strategy]:
            taken.append(world.choice.strategy)
        act(world, chance, at_once=True)
    assert len(taken) == len(set(taken))


@pytest.mark.parametrize(
    ("gpus", "old_gpus", "new_gpus", "wanted", "first", "answering"),
    [
        pytest.param(4, 1, 1, 3, "Surge", 3, id="a spare GPU: nothing is missed"),
        pytest.param(3, 1, 1, 3, "OneByOne", 2, id="none: one is missed"),
        pytest.param(1, 1, 1, 1, "OneByOne", 0, id="none and one pod: a gap"),
        pytest.param(8, 2, 8, 4, "Recreate", 0, id="a new pod needs what all old ones hold"),
        pytest.param(8, 2, 4, 2, "Surge", 1, id="room for the first bigger pod, not for the second"),
        pytest.param(4, 2, 4, 2, "Recreate", 0, id="both old pods hold what one new one needs"),
        pytest.param(8, 4, 2, 2, "OneByOne", 1, id="smaller pods: only the first has to wait"),
        pytest.param(8, 2, 16, 4, "Surge", 4, id="never fits: the old ones stay"),
    ],
)
def test_known_rollouts(gpus: int, old_gpus: int, new_gpus: int, wanted: int, first: str, answering: int) -> None:
    chance = random.Random(1)
    world = World({"n": gpus}, {}, {OLD: old_gpus, NEW: new_gpus}, wanted, NEW, sets={OLD: wanted})
    world.pods = [Pod(OLD, "n", ready=True) for _ in range(wanted)]
    world.decide()
    assert world.choice.strategy == first, world.choice.reason
    seen: list[int] = []
    settle(world, chance, lambda: seen.append(world.available()))
    assert min(seen) == answering
    check_done(world)
