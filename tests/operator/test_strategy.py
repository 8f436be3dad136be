"""What `Auto` chooses at single moments. `test_rollouts_converge` tries whole rollouts."""

from typing import Any

import pytest

from octavo_operator.capacity.room import Room, Tenant
from octavo_operator.strategy import Standing, choose

GPU = "nvidia.com/gpu"
ONE = Tenant("a", {GPU: 1000, "pods": 1000})
UNPLACED = None


def room(free: int, gpus: int = 1) -> Room:
    amounts = {GPU: free * 1000, "pods": 100_000}
    return Room({GPU: gpus * 1000, "pods": 1000}, {"a": amounts}, {"a": {GPU: 8000}})


@pytest.mark.parametrize(
    ("standing", "free", "strategy", "at_once", "says"),
    [
        pytest.param(
            Standing(2, old=(ONE, ONE)), room(1), "Surge", 1, "there is room for one more pod of 1", id="room"
        ),
        pytest.param(
            Standing(2, old=(ONE, ONE)), room(0), "OneByOne", 1, "(a has 0 of 8 nvidia.com/gpu free)", id="no room"
        ),
        pytest.param(
            Standing(3, old=(ONE, ONE, ONE), new=(ONE,)), room(0), "Surge", 1, "room", id="a surge is under way"
        ),
        pytest.param(
            Standing(3, old=(ONE, ONE), new=(ONE,), ending=1),
            room(1),
            "Surge",
            1,
            "room",
            id="an old one of a surge ends",
        ),
        pytest.param(
            Standing(2, old=(ONE,), new=(UNPLACED,), ending=1),
            room(1),
            "OneByOne",
            1,
            "meanwhile 1 pod answers",
            id="an old one makes room",
        ),
        pytest.param(
            Standing(4, old=(ONE,) * 3, new=(UNPLACED,)),
            room(0, 2),
            "OneByOne",
            2,
            "2 pods",
            id="one did not make enough",
        ),
        pytest.param(Standing(1, old=(ONE,)), room(0), "OneByOne", 1, "nothing answers", id="the only pod: a gap"),
        pytest.param(
            Standing(2, old=(ONE, ONE)),
            room(0, 2),
            "Recreate",
            1,
            "before all 2 old ones are gone",
            id="all have to go",
        ),
        pytest.param(
            Standing(2, old=(ONE,), new=(ONE, ONE)), room(0), "Surge", 1, "every new pod has its place", id="all placed"
        ),
        pytest.param(
            Standing(2, old=(ONE, UNPLACED)),
            room(0, 5),
            "OneByOne",
            1,
            "",
            id="an old one without a place goes for nothing",
        ),
        pytest.param(
            Standing(2, new=(ONE, UNPLACED)), room(0), "Surge", 1, "nothing is being replaced", id="no old ones"
        ),
        pytest.param(Standing(0, old=(ONE,)), room(0), "Surge", 1, "", id="nothing is wanted"),
        pytest.param(
            Standing(2, old=(ONE, ONE), new=(UNPLACED,), doubted=True),
            room(4),
            "OneByOne",
            1,
            "the scheduler finds no place",
            id="the scheduler knows better",
        ),
        pytest.param(
            Standing(3, old=(ONE, ONE), new=(UNPLACED,), doubted=True, refused=1),
            room(4),
            "OneByOne",
            2,
            "",
            id="and again",
        ),
    ],
)
def test_chooses_by_room(standing: Standing, free: Room, strategy: str, at_once: int, says: str) -> None:
    choice = choose(standing, free, "", "gpu")
    assert (choice.strategy, choice.at_once, choice.held) == (strategy, at_once, False), choice.reason
    assert says in choice.reason
    assert choice.reason.startswith(f"{strategy}: ")


def test_stops_no_old_pod_where_nothing_would_be_won() -> None:
    choice = choose(Standing(2, old=(ONE, ONE)), room(0, 5), "", "gpu")
    assert (choice.strategy, choice.held) == ("Surge", True)
    assert "nor would there be without the old pods, so these stay" in choice.reason


@pytest.mark.parametrize(
    ("device", "standing", "strategy"),
    [
        pytest.param("gpu", Standing(2, old=(ONE, ONE)), "OneByOne", id="GPUs are rare"),
        pytest.param("cpu", Standing(2, old=(ONE, ONE)), "Surge", id="CPUs are not"),
        pytest.param(
            "cpu", Standing(2, old=(ONE, ONE), new=(None,), doubted=True), "OneByOne", id="unless shown to be"
        ),
    ],
)
def test_chooses_by_device_where_room_is_not_known(device: str, standing: Standing, strategy: str) -> None:
    choice = choose(standing, None, "nodes are not readable", device)
    assert choice.strategy == strategy
    assert "nodes are not readable" in choice.reason


@pytest.mark.parametrize("free", [room(4), None], ids=["with room", "not known"])
def test_recreates_where_old_and_new_cannot_run_side_by_side(free: Any) -> None:
    choice = choose(Standing(1, old=(ONE,)), free, "not known", "gpu", exclusive="the claim w is ReadWriteOncePod")
    assert choice.strategy == "Recreate"
    assert "the claim w is ReadWriteOncePod, so the old pods stop first" in choice.reason
