"""The chart over its life on a real cluster: the released one, upgraded to this one, uninstalled, installed again. A service that
is served all the while never notices.
"""

import base64
import dataclasses
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from octavo_operator import names, pins
from octavo_operator.desired.deployment import deployment
from octavo_operator.desired.service import cluster_service
from octavo_operator.plan import plan
from octavo_operator.service import parse
from tests.cluster import local_operator
from tests.cluster.installation import CRD, RELEASE, Images, ensure_namespace, helm, install, uninstall
from tests.cluster.kubectl import Kubectl, wait_for
from tests.cluster.lonely import OPERATORS
from tests.cluster.onenode import certificates
from tests.operator.live import KIND, Object, applied, service, wait_for_condition

RELEASED = Path(__file__).parents[1] / "chart" / "released" / "octavo-0.1.0.tgz"
READY_S = 240.0
pytestmark = pytest.mark.usefixtures("own_cluster")


@pytest.fixture(scope="module")
def released(cluster: Kubectl, octavo: Kubectl, images: Images) -> Iterator[Kubectl]:
    """The chart as it was released, with a service that is served; afterwards the cluster is as other tests know it."""
    if local_operator.namespace() is not None:
        pytest.skip("needs the chart's operator, and OCTAVO_TEST_NAMESPACE asks for one without the chart")
    uninstall(cluster)
    # helm takes no field away from a resource that it finds: the released one is made anew.
    cluster.delete("customresourcedefinition", CRD, timeout_s=60.0)
    # The released image is not at hand, and today's operator lacks rights under the released chart: none runs until the upgrade.
    values = {"operator": {"image": "octavo-operator:0.1.0"}, "runtime": {"image": images.runtime_demo}}
    helm(cluster.access, "install", RELEASE, str(RELEASED), "--values=-", values=values)
    cluster.within(cluster.access.operator_namespace).run("scale", f"deployment/{RELEASE}-operator", "--replicas=0")
    ensure_namespace(cluster, "octavo-upgraded")
    within = cluster.within("octavo-upgraded")
    try:
        with applied(within, service("chat", replicas=1)):
            made_by_the_released_operator(within, "chat", images.runtime_demo)
            within.run("rollout", "status", "deployment/chat", f"--timeout={READY_S:.0f}s", timeout_s=READY_S + 10)
            yield within
    finally:
        install(cluster, images)
        cluster.delete("namespace", "octavo-upgraded", timeout_s=120.0)


def made_by_the_released_operator(kubectl: Kubectl, name: str, image: str) -> None:
    """Deployment and Service as it applied them: its generation of pods, and no annotation of a default image."""
    live = kubectl.get(KIND, name)
    assert live is not None
    wanted = parse(live, dataclasses.replace(pins.newest(image), renderer="v1"))
    workload = deployment(wanted, plan(wanted))
    del workload["metadata"]["annotations"][names.DEFAULT_IMAGE_ANNOTATION]
    for body in (workload, cluster_service(wanted)):
        kubectl.run(
            *("apply", "--server-side", f"--field-manager={names.FIELD_MANAGER}", "--filename=-"),
            stdin=json.dumps(body),
        )


def pod(kubectl: Kubectl) -> Object:
    [found] = kubectl.list("pods", "serving.octavo.dev/service=chat")
    return found


def schema(cluster: Kubectl) -> Object:
    found = cluster.get("customresourcedefinition", CRD)
    assert found is not None
    fields: Object = found["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return fields


def test_an_upgrade_brings_the_new_fields_and_restarts_nothing(
    released: Kubectl, cluster: Kubectl, images: Images, tmp_path: Path
) -> None:
    before, then = pod(released), released.get("deployment", "chat")
    assert then is not None
    assert "autoscaling" not in schema(cluster)
    install(cluster, images, values=with_webhook(cluster, tmp_path))
    assert "autoscaling" in schema(cluster)
    operators = cluster.within(cluster.access.operator_namespace)
    running = wait_for(lambda: ready_pair(operators), 60, "two operators")
    wait_for(lambda: leader(operators) in running, 30, "one of them to lead")
    wait_for_condition(released, "chat", "Ready", "True")
    after, now = pod(released), released.get("deployment", "chat")
    assert now is not None
    assert (after["metadata"]["uid"], after["status"]["containerStatuses"][0]["restartCount"]) == (
        before["metadata"]["uid"],
        0,
    )
    assert now["spec"]["template"] == then["spec"]["template"]


def with_webhook(cluster: Kubectl, folder: Path) -> dict[str, Any]:
    """Values that switch the webhook on, with a Secret of a certificate by an authority of our own."""
    namespace = cluster.access.operator_namespace
    authority = certificates.write_serving(folder, f"{RELEASE}-operator-webhook.{namespace}.svc")
    files = {name: base64.b64encode((folder / name).read_bytes()).decode() for name in ("tls.crt", "tls.key")}
    metadata = {"name": "octavo-webhook-test", "namespace": namespace}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": metadata, "data": files}
    )
    bundle = base64.b64encode(authority).decode()
    return {"webhook": {"enabled": True, "existingSecret": "octavo-webhook-test", "caBundle": bundle}}


def leader(operators: Kubectl) -> str:
    """The name of the pod that holds the lease; empty where none does."""
    lease = operators.get("lease", f"{RELEASE}-operator") or {"spec": {}}
    return str(lease["spec"].get("holderIdentity", "")).rpartition("_")[0]


def ready_pair(operators: Kubectl) -> list[str] | None:
    """The names of the operator's pods, where two are ready and no other is there."""
    found = operators.list("pods", OPERATORS)
    ready = [
        item["metadata"]["name"]
        for item in found
        if any(entry["type"] == "Ready" and entry["status"] == "True" for entry in item["status"].get("conditions", ()))
    ]
    return ready if len(ready) == len(found) == 2 else None


def test_who_changes_a_service_is_warned_of_what_it_restarts(released: Kubectl) -> None:
    change = '{"spec":{"runtime":{"maxNumSeqs":8}}}'
    words = released.words("patch", KIND, "chat", "--type=merge", f"--patch={change}", "--dry-run=server")
    wait_for(lambda: "Warning: restarts 1 pod, " in said(words), 20, "the webhook in the cluster to be asked")


def said(words: list[str]) -> str:
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=20).stderr


def test_uninstalling_leaves_the_services_and_installing_again_takes_them_up(
    released: Kubectl, cluster: Kubectl, images: Images
) -> None:
    before = pod(released)["metadata"]["uid"]
    uninstall(cluster)
    assert "autoscaling" in schema(cluster)
    found = released.get(KIND, "chat")
    assert found is not None
    assert pod(released)["metadata"]["uid"] == before
    released.patch(KIND, "chat", {"spec": {"rollout": {"strategy": "Recreate"}}})
    install(cluster, images)
    wait_for_condition(released, "chat", "Ready", "True", timeout_s=60)
    assert pod(released)["metadata"]["uid"] == before
