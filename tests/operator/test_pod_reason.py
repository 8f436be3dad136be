from typing import Any

import pytest

from octavo_operator import pod_reason


def pod(container: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    if container is not None:
        status["containerStatuses"] = [{"name": "runtime", "image": "octavo:1", **container}]
    return {"metadata": {"name": "chat-1"}, "status": status}


def terminated(code: int, reason: str = "Error", message: str = "") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason, "message": message}}


def limited(live: dict[str, Any], memory: str) -> dict[str, Any]:
    return {**live, "spec": {"containers": [{"name": "runtime", "resources": {"limits": {"memory": memory}}}]}}


def beside(live: dict[str, Any], name: str) -> dict[str, Any]:
    """The same with another container, which is ready, before the runtime's."""
    containers = [{"name": name, "ready": True, "state": {"running": {}}}, *live["status"]["containerStatuses"]]
    return {**live, "status": {**live["status"], "containerStatuses": containers}}


def ended_by(reason: str) -> dict[str, Any]:
    target = {"type": "DisruptionTarget", "status": "True", "reason": reason}
    metadata = {"name": "chat-1", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    return {"metadata": metadata, "status": {"conditions": [target]}}


UNSCHEDULABLE = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
}
CONTAINERS_READY = {"type": "ContainersReady", "status": "True"}
NOT_READY = {"type": "Ready", "status": "False"}
PULL = "failed to pull: not found"


@pytest.mark.parametrize(
    ("live", "reason"),
    [
        pytest.param(pod(phase="Pending"), "Pending: the node has not begun", id="just made"),
        pytest.param(
            pod(phase="Pending", conditions=[UNSCHEDULABLE]),
            "Unschedulable: 0/1 nodes are available: 1 Insufficient nvidia.com/gpu.",
            id="no node has room",
        ),
        pytest.param(
            pod({"state": {"waiting": {"reason": "ContainerCreating"}}}),
            "ContainerCreating: the image is being pulled or a volume mounted",
            id="creating",
        ),
        pytest.param(
            pod({"state": {"waiting": {"reason": "ErrImagePull", "message": PULL}}}),
            f"ImagePullBackOff: {PULL}",
            id="pull failed",
        ),
        pytest.param(
            pod(
                {
                    "state": {
                        "waiting": {
                            "reason": "ImagePullBackOff",
                            "message": f'Back-off pulling image "x": ErrImagePull: {PULL}',
                        }
                    }
                }
            ),
            f"ImagePullBackOff: {PULL}",
            id="pull failed again says the same",
        ),
        pytest.param(
            pod(
                {
                    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
                    "lastState": terminated(2, message="loading\nerror: no such model\n"),
                }
            ),
            "CrashLoopBackOff: exit code 2: error: no such model",
            id="crashes with its last line",
        ),
        pytest.param(
            pod(
                {
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": terminated(137, reason="OOMKilled"),
                }
            ),
            "CrashLoopBackOff: OOMKilled (exit code 137): it used more memory than its limit; raise spec.resources.memory",
            id="out of memory",
        ),
        pytest.param(
            pod({"state": {"waiting": {"reason": "CreateContainerConfigError", "message": "no such secret"}}}),
            "CreateContainerConfigError: no such secret",
            id="any other wait",
        ),
        pytest.param(
            pod({"state": {"running": {}}, "started": False}),
            "Starting: the runtime does not answer yet",
            id="starting",
        ),
        pytest.param(
            pod({"state": {"running": {}}, "started": True, "ready": False}),
            "Loading: the model is being loaded or warmed up",
            id="loading",
        ),
        pytest.param(
            pod(
                {
                    "state": {"running": {}},
                    "started": True,
                    "ready": False,
                    "lastState": terminated(1),
                    "restartCount": 1,
                }
            ),
            "Loading: the model is being loaded or warmed up again after exit code 1",
            id="loading after a crash",
        ),
        pytest.param(
            pod(
                {
                    "state": {"waiting": {"reason": "ImagePullBackOff", "message": f"ErrImagePull: {PULL}"}},
                    "lastState": terminated(1),
                    "restartCount": 3,
                }
            ),
            f"ImagePullBackOff: {PULL}",
            id="pull failed after crashes",
        ),
        pytest.param(
            limited(pod({"state": terminated(137, reason="OOMKilled")}), "2Gi"),
            "OOMKilled (exit code 137): it used more memory than its limit of 2Gi; raise spec.resources.memory",
            id="out of memory once, with the limit",
        ),
        pytest.param(
            pod(
                {
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": terminated(1, message="fine\n\x1b[31mValueError: \x07no head\x1b[0m\n \n"),
                }
            ),
            "CrashLoopBackOff: exit code 1: ValueError: no head",
            id="a last line in colours",
        ),
        pytest.param(
            beside(pod({"state": {"running": {}}, "started": False}), "proxy"),
            "Starting: the runtime does not answer yet",
            id="a container beside the runtime is ready",
        ),
        pytest.param(
            pod({"state": {"running": {}}, "ready": True}, conditions=[CONTAINERS_READY, {**NOT_READY}]),
            "NodeLost: its node does not answer; whether the pod still serves is not known",
            id="node lost",
        ),
        pytest.param(
            pod(
                {"state": {"running": {}}, "ready": True},
                conditions=[CONTAINERS_READY, {**NOT_READY, "reason": "ReadinessGatesNotReady", "message": "gate x"}],
            ),
            "ReadinessGatesNotReady: gate x",
            id="a readiness gate",
        ),
        pytest.param(
            pod(initContainerStatuses=[{"name": "fetch", "state": {"running": {}}}]),
            "Preparing: the init container fetch runs",
            id="an init container runs",
        ),
        pytest.param(
            pod(
                initContainerStatuses=[
                    {"name": "done", "state": {"terminated": {"exitCode": 0}}},
                    {"name": "fetch", "state": {"waiting": {"reason": "PodInitializing"}}, "lastState": terminated(7)},
                ]
            ),
            "InitFailed: the init container fetch: exit code 7",
            id="an init container failed",
        ),
        pytest.param(
            pod(
                {"state": {"running": {}}},
                initContainerStatuses=[{"name": "mesh", "ready": True, "state": {"running": {}}}],
            ),
            "Starting: the runtime does not answer yet",
            id="a sidecar runs",
        ),
        pytest.param(pod({"state": terminated(3)}), "exit code 3", id="ended, not yet restarted"),
        pytest.param(
            pod(phase="Failed", reason="Evicted", message="low on memory"), "Evicted: low on memory", id="evicted"
        ),
        pytest.param(
            {"metadata": {"name": "chat-1", "deletionTimestamp": "2026-01-01T00:00:00Z"}, "status": {}},
            "Terminating: finishing its requests",
            id="ending",
        ),
        pytest.param(
            ended_by("DeletionByTaintManager"),
            "NodeLost: its node does not answer or has a taint that the pod does not tolerate",
            id="deleted for its node",
        ),
        pytest.param(
            ended_by("EvictionByEvictionAPI"),
            "Evicted: asked for by the eviction API, as when its node is drained; finishing its requests",
            id="drained from its node",
        ),
    ],
)
def test_says_what_a_pod_waits_for(live: dict[str, Any], reason: str) -> None:
    assert pod_reason.reason(live) == reason


@pytest.mark.parametrize(
    "container",
    [
        pytest.param({"state": terminated(2, message="no model"), "restartCount": 1}, id="ended again"),
        pytest.param(
            {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": terminated(2, message="no model")},
            id="waits",
        ),
        pytest.param(
            {
                "state": {"running": {}},
                "started": False,
                "lastState": terminated(2, message="no model"),
                "restartCount": 2,
            },
            id="starts",
        ),
        pytest.param(
            {
                "state": {"running": {}},
                "started": True,
                "lastState": terminated(2, message="no model"),
                "restartCount": 2,
            },
            id="loads",
        ),
    ],
)
def test_says_the_same_all_through_a_loop_of_crashes(container: dict[str, Any]) -> None:
    assert pod_reason.reason(pod(container)) == "CrashLoopBackOff: exit code 2: no model"


@pytest.mark.parametrize(
    "last",
    [
        pytest.param("octavo serve: --nonsense is unknown: `octavo serve --help` lists what there is", id="unknown"),
        pytest.param("octavo: error: unrecognized arguments: --nonsense", id="unknown to an earlier runtime"),
        pytest.param("octavo serve: argument --dtype: invalid choice: '3'", id="a value that cannot be"),
    ],
)
def test_a_flag_that_the_runtime_does_not_take_is_told_with_the_field(last: str) -> None:
    container = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": terminated(2, message=f"{last}\n")}
    remedy = "correct spec.runtime.extraArgs, or use a spec.runtime.image that takes it"
    assert pod_reason.reason(pod(container)) == f"CrashLoopBackOff: exit code 2: {last}; {remedy}"
    others = {"name": "setup", "restartCount": 2, **container}
    assert "extraArgs" not in pod_reason.reason(pod(initContainerStatuses=[others]))


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


def test_a_ready_pod_waits_for_nothing() -> None:
    assert pod_reason.reason(pod({"state": {"running": {}}}, conditions=[{"type": "Ready", "status": "True"}])) == ""


def test_long_reasons_are_cut_to_what_the_status_holds() -> None:
    assert len(pod_reason.reason(pod({"state": {"waiting": {"reason": "Odd", "message": "x" * 2000}}}))) == 400


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        pytest.param("OOMKilled (exit code 137): it used more", "OOMKilled", id="a word and more"),
        pytest.param("exit code 3", "exit", id="no word of its own"),
        pytest.param("", "", id="nothing"),
    ],
)
def test_a_reason_begins_with_a_word_for_machines(reason: str, word: str) -> None:
    assert pod_reason.word(reason) == word
