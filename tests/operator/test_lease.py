"""Who may take a Lease, and what is written into it. The loop around it runs against a real API server in the cluster tier."""

from typing import Any

import pytest

from octavo_operator import lease
from octavo_operator.lease import Sighting

NOW = "2026-11-30T18:00:00.000000Z"
HELD: dict[str, Any] = {
    "holderIdentity": "first",
    "leaseDurationSeconds": 10,
    "acquireTime": "2026-11-30T17:00:00.000000Z",
    "renewTime": "2026-11-30T17:59:58.000000Z",
    "leaseTransitions": 3,
}


@pytest.mark.parametrize(
    ("spec", "seen_s", "now_s", "may"),
    [
        pytest.param({}, 0.0, 0.0, True, id="nobody ever held it"),
        pytest.param({**HELD, "holderIdentity": ""}, 0.0, 0.0, True, id="it was given up"),
        pytest.param({**HELD, "holderIdentity": "second"}, 0.0, 0.0, True, id="it is ours"),
        pytest.param(HELD, 100.0, 109.9, False, id="its holder was heard of lately"),
        pytest.param(HELD, 100.0, 110.0, True, id="its holder is silent"),
        pytest.param({**HELD, "leaseDurationSeconds": 60}, 100.0, 130.0, False, id="its holder asked for longer"),
    ],
)
def test_a_lease_is_taken_only_where_its_holder_is_silent(
    spec: dict[str, Any], seen_s: float, now_s: float, may: bool
) -> None:
    assert lease.may_claim(spec, "second", lease.sighting(None, spec, seen_s), now_s) is may


@pytest.mark.parametrize("renewed", ["1999-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"])
def test_a_holders_clock_that_is_wrong_by_years_is_not_looked_at(renewed: str) -> None:
    spec = {**HELD, "renewTime": renewed}
    seen = lease.sighting(None, spec, 100.0)
    assert not lease.may_claim(spec, "second", seen, 109.0)
    assert lease.may_claim(spec, "second", seen, 111.0)


def test_every_renewal_begins_the_wait_anew_and_nothing_else_does() -> None:
    first = lease.sighting(None, HELD, 100.0)
    assert lease.sighting(first, {**HELD, "strategy": "something new"}, 105.0) == first
    assert lease.sighting(first, {**HELD, "renewTime": NOW}, 105.0) == Sighting(("first", NOW, 3), 105.0, 10)


@pytest.mark.parametrize(
    ("now_s", "patience_s"),
    [
        pytest.param(100.0, 2.0, id="just renewed"),
        pytest.param(109.0, 1.0, id="nearly over"),
        pytest.param(110.0, 0.1, id="over, but for the clock's last digit"),
    ],
)
def test_who_waits_looks_again_at_the_moment_from_which_it_may_take_over(now_s: float, patience_s: float) -> None:
    assert lease.patience_s(lease.sighting(None, HELD, 100.0), now_s) == patience_s


def test_taking_over_counts_a_transition_and_renewing_does_not() -> None:
    taken = lease.claimed(HELD, "second", NOW)
    assert taken == {
        "holderIdentity": "second",
        "leaseDurationSeconds": 10,
        "acquireTime": NOW,
        "renewTime": NOW,
        "leaseTransitions": 4,
    }
    later = "2026-11-30T18:00:02.000000Z"
    assert lease.claimed(taken, "second", later) == {**taken, "renewTime": later}
    assert lease.claimed({}, "second", NOW)["leaseTransitions"] == 0


def test_what_is_given_up_is_anybodys_at_once() -> None:
    spec = lease.released(HELD, NOW)
    assert lease.may_claim(spec, "second", lease.sighting(None, spec, 0.0), 0.0)
    assert lease.claimed(spec, "second", NOW)["leaseTransitions"] == 4


def test_the_holder_stops_before_anybody_may_take_over() -> None:
    assert lease.RENEW_DEADLINE_S + lease.TIMEOUT_S <= lease.LEASE_S
    assert lease.RETRY_S + lease.TIMEOUT_S < lease.RENEW_DEADLINE_S, "one attempt may fail"
