"""What spec.podTemplate and the pins make of a Deployment in a real API server, on services without pods."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.kubectl import Kubectl, wait_for
from tests.operator.live import (
    KIND,
    Object,
    applied,
    reason_of,
    service,
    shared_namespace,
    versions,
    wait_for_condition,
)

# Things that the API server writes down otherwise than it was told.
AWKWARD = {
    "hostNetwork": False,
    "priority": None,
    "nodeSelector": {"disk": "fast"},
    "imagePullSecrets": [{"name": "pull"}],
    "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["hub"]}],
    "initContainers": [{"name": "first", "image": "registry.invalid/first:1", "env": []}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
    "containers": [
        {
            "name": "runtime",
            "resources": {"requests": {"ephemeral-storage": "1024Mi"}},
            "env": [{"name": "HF_ENDPOINT", "value": "1024Mi"}],
            "volumeMounts": [{"name": "more", "mountPath": "/more", "readOnly": False}],
        },
        {
            "name": "beside",
            "image": "registry.invalid/beside:1",
            "ports": [{"containerPort": 9000}],
            "livenessProbe": {"tcpSocket": {"port": 9000}, "initialDelaySeconds": 0},
        },
    ],
    "volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "0.5Gi"}}, {"name": "more", "emptyDir": {}}],
}


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


def pod_template(kubectl: Kubectl, name: str) -> Object:
    found = wait_for(lambda: kubectl.get("deployment", name), 20, f"deployment {name}")
    template: Object = found["spec"]["template"]
    return template


def test_a_pod_template_is_merged_once_and_stays(octavo: Kubectl, namespace: Kubectl) -> None:
    extra = {"labels": {"team": "a"}, "annotations": {"note": "b"}, "spec": AWKWARD}
    with applied(namespace, service("merged", suspend=True, podTemplate=extra)):
        wait_for_condition(namespace, "merged", "Ready", "True", says="Suspended", timeout_s=60.0)
        template = pod_template(namespace, "merged")
        assert template["metadata"]["labels"]["team"] == "a"
        assert template["spec"]["volumes"][0] == {"name": "tmp", "emptyDir": {"sizeLimit": "512Mi"}}
        runtime, beside = template["spec"]["containers"]
        assert (runtime["command"], beside["name"]) == (["octavo"], "beside")
        before = versions(namespace, "merged")
        # Another look at it, which an annotation causes, finds nothing to write but that.
        namespace.patch(KIND, "merged", {"metadata": {"annotations": {"look": "again"}}})
        namespace.patch("service", "merged", {"metadata": {"annotations": {"look": "again"}}})
        namespace.patch(KIND, "merged", {"spec": {"suspend": True, "replicas": 1}})
        wait_for_condition(namespace, "merged", "Ready", "True", says="Suspended", timeout_s=60.0)
        assert versions(namespace, "merged")["deployment"] == before["deployment"]


def test_what_only_the_administrator_allows_is_refused_with_what_would(octavo: Kubectl, namespace: Kubectl) -> None:
    privileged = {"spec": {"containers": [{"name": "runtime", "securityContext": {"privileged": True}}]}}
    folder = {"source": "hf://org/repo", "cache": {"hostPath": {"path": "/data"}}}
    with applied(
        namespace,
        service("mighty", suspend=True, podTemplate=privileged),
        service("rooted", suspend=True, model=folder),
    ):
        says = "securityContext.privileged is not allowed here"
        wait_for_condition(namespace, "mighty", "Stalled", "True", says=says, timeout_s=60.0)
        assert reason_of(namespace, "mighty", "SpecValid").startswith("False NotAllowed")
        wait_for_condition(namespace, "rooted", "Stalled", "True", says="HostPathNotAllowed", timeout_s=60.0)
        assert namespace.get("deployment", "mighty") is None


def test_a_field_that_pods_do_not_have_is_said(octavo: Kubectl, namespace: Kubectl) -> None:
    with applied(namespace, service("misspelt", suspend=True, podTemplate={"spec": {"priorityClas": "x"}})):
        wait_for_condition(namespace, "misspelt", "Stalled", "True", says="Rejected", timeout_s=60.0)
        assert "priorityClas" in reason_of(namespace, "misspelt")


def test_what_pods_are_made_with_is_remembered_and_put_back(octavo: Kubectl, namespace: Kubectl) -> None:
    with applied(namespace, service("pinned", suspend=True)):
        found = wait_for_condition(namespace, "pinned", "Ready", "True", says="Suspended")
        status = found["status"]
        live = wait_for(lambda: namespace.get("deployment", "pinned"), 20, "the Deployment")
        annotations = live["metadata"]["annotations"]
        renderer = annotations["serving.octavo.dev/renderer"]
        assert annotations["serving.octavo.dev/default-image"] == status["runtimeImage"]
        assert status["revision"].startswith(f"{renderer}-")
        namespace.run("set", "image", "deployment/pinned", "runtime=registry.invalid/other:1")

        def image() -> str:
            return str(pod_template(namespace, "pinned")["spec"]["containers"][0]["image"])

        wait_for(lambda: image() == status["runtimeImage"], 20, "the image to be put back")


def test_what_is_no_longer_asked_for_is_deleted(octavo: Kubectl, namespace: Kubectl) -> None:
    with applied(namespace, service("walled", suspend=True, network={})):
        wait_for(lambda: namespace.get("networkpolicy", "walled-network"), 20, "the NetworkPolicy")
        remove = json.dumps([{"op": "remove", "path": "/spec/network"}])
        namespace.run("patch", KIND, "walled", "--type=json", f"--patch={remove}")
        wait_for(lambda: namespace.get("networkpolicy", "walled-network") is None, 20, "the NetworkPolicy to go")
