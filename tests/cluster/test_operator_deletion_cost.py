"""A scale-down of an autoscaled service stops the idle pod and not the one that answers."""

import threading

from tests.cluster.conversation import ask, port_forward
from tests.cluster.kubectl import Kubectl, wait_for
from tests.operator.live import KIND, Object, applied, service, wait_for_condition

COST = "controller.kubernetes.io/pod-deletion-cost"
READY_S = 240.0


def pods(kubectl: Kubectl) -> dict[str, Object]:
    found = kubectl.list("pods", "serving.octavo.dev/service=scaled,serving.octavo.dev/serving=true")
    return {pod["metadata"]["name"]: pod for pod in found if "deletionTimestamp" not in pod["metadata"]}


def cost(pod: Object) -> int:
    return int(pod["metadata"].get("annotations", {}).get(COST, "0"))


def test_a_scale_down_takes_the_idlest_pod(octavo: Kubectl, namespace: Kubectl) -> None:
    scaled = service(
        "scaled",
        autoscaling={"minReplicas": 2, "maxReplicas": 3},
        runtime={"kvCache": {"memory": "64Mi"}, "maxModelLen": 512, "maxNumSeqs": 2},
    )
    with applied(namespace, scaled):
        wait_for_condition(namespace, "scaled", "Ready", "True", timeout_s=READY_S)
        idle, busy = sorted(pods(namespace))
        over = threading.Event()
        with port_forward(namespace, f"pod/{busy}", 8000) as url:

            def talk() -> None:
                while not over.is_set():
                    ask(url, "scaled", "Tell me a long story about paper.", lambda _: None, limit_tokens=400)

            talker = threading.Thread(target=talk)
            talker.start()
            try:
                wait_for(lambda: cost(pods(namespace)[busy]) > 0, 60.0, "the busy pod to be dear")
                assert cost(pods(namespace)[idle]) == 0
                namespace.patch(KIND, "scaled", {"spec": {"autoscaling": {"minReplicas": 1}}})
                wait_for_condition(namespace, "scaled", "Ready", "True", timeout_s=60.0)
                namespace.run("scale", "deployment", "scaled", "--replicas=1")
                wait_for(lambda: len(pods(namespace)) == 1, 30.0, "one pod to be stopped")
                assert set(pods(namespace)) == {busy}
            finally:
                over.set()
                talker.join(60.0)
