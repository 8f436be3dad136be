"""What the operator does where another writer will not let it keep a child as the spec says."""

import time
from collections.abc import Iterator

import pytest

from tests.cluster.kubectl import Kubectl, wait_for
from tests.operator.live import KIND, applied, service, shared_namespace, wait_for_condition


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


def resets(kubectl: Kubectl, name: str, seconds: float) -> int:
    """Sets a field of the Deployment for that long each time the operator has put it back. Returns how often."""
    until, count = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        if history_limit(kubectl, name) == 3:
            kubectl.patch("deployment", name, {"spec": {"revisionHistoryLimit": 9}})
            count += 1
    return count


def history_limit(kubectl: Kubectl, name: str) -> int:
    return int(kubectl.run("get", "deployment", name, "--output=jsonpath={.spec.revisionHistoryLimit}"))


def test_puts_back_ever_more_slowly_what_another_keeps_setting(octavo: Kubectl, namespace: Kubectl) -> None:
    with applied(namespace, service("fought", suspend=True)):
        wait_for_condition(namespace, "fought", "Ready", "True", says="Suspended")
        # Written at the beginning and put back at once, then after 1, 2, 4 and 8 s; without pauses it would be dozens.
        assert 3 <= resets(namespace, "fought", 12.0) <= 6
        says = "Contested: in the Deployment kubectl-patch changes spec.revisionHistoryLimit again and again"
        wait_for_condition(namespace, "fought", "Ready", "False", says=says)
        wait_for(lambda: history_limit(namespace, "fought") == 3, 20, "the last word to be the operator's")
        namespace.patch(KIND, "fought", {"spec": {"rollout": {"drainTimeoutSeconds": 5}}})
        wait_for_condition(namespace, "fought", "Ready", "True", says="Suspended")
