"""What is said of a pod whose volumes are not mounted."""

from typing import Any

import pytest

from octavo_operator import pod_reason
from tests.operator.pod_samples import pod, terminated

UNMOUNTED = {"type": "PodReadyToStartContainers", "status": "False"}
API_KEYS = {"name": "api-keys", "secret": {"secretName": "nope", "items": [{"key": "token", "path": "keys"}]}}
MODEL = {"name": "model", "persistentVolumeClaim": {"claimName": "weights"}}
PULLED = "ContainerCreating: the image is being pulled or a volume mounted"
UNASKED = [
    {"name": "warmup", "configMap": {"name": "shapes", "optional": True}},
    {"name": "scratch", "emptyDir": {}},
    {"name": "token", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
]


def creating(volumes: list[dict[str, Any]], *conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    container = {"state": {"waiting": {"reason": "ContainerCreating"}}}
    return {**pod(container, conditions=list(conditions), **status), "spec": {"volumes": volumes}}


@pytest.mark.parametrize(
    ("live", "says"),
    [
        pytest.param(
            creating([API_KEYS, *UNASKED], UNMOUNTED),
            "ContainerCreating: its volumes are not mounted yet; they need the Secret nope with the key token: is it there?",
            id="a Secret",
        ),
        pytest.param(
            creating([MODEL, API_KEYS], UNMOUNTED),
            "ContainerCreating: its volumes are not mounted yet; they need the Secret nope with the key token and "
            "the claim weights: are all of them there?",
            id="several",
        ),
        pytest.param(
            creating([{"name": "a", "projected": {"sources": [{"configMap": {"name": "rules"}}]}}], UNMOUNTED),
            "ContainerCreating: its volumes are not mounted yet; they need the ConfigMap rules: is it there?",
            id="in a projected volume",
        ),
        pytest.param(
            creating(
                [API_KEYS],
                UNMOUNTED,
                initContainerStatuses=[{"name": "setup", "state": {"waiting": {"reason": "PodInitializing"}}}],
            ),
            "ContainerCreating: its volumes are not mounted yet; they need the Secret nope with the key token: is it there?",
            id="before init containers",
        ),
        pytest.param(creating(UNASKED, UNMOUNTED), PULLED, id="nothing is needed"),
        pytest.param(creating([API_KEYS], {**UNMOUNTED, "status": "True"}), PULLED, id="all is mounted"),
        pytest.param(creating([API_KEYS]), PULLED, id="the node does not say"),
    ],
)
def test_names_what_the_volumes_of_a_pod_need_while_they_are_not_mounted(live: dict[str, Any], says: str) -> None:
    assert pod_reason.reason(live) == says


def test_a_pod_that_ran_before_does_not_wait_for_its_volumes() -> None:
    """A node that restarts says that it prepares the pod again."""
    container = {"state": terminated(1, message="gone"), "restartCount": 0}
    live = {**pod(container, conditions=[UNMOUNTED]), "spec": {"volumes": [API_KEYS]}}
    assert pod_reason.reason(live) == "exit code 1: gone"
