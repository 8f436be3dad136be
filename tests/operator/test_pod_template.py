"""How spec.podTemplate is merged, and what of it only the administrator allows."""

from typing import Any

import pytest

from octavo_operator import allowances
from octavo_operator.desired import pod
from octavo_operator.installation import Installation
from octavo_operator.spec.errors import SpecError
from tests.operator.samples import parsed


def template(pod_spec: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    return pod.template(parsed(podTemplate={**fields, "spec": pod_spec or {}}))


def runtime(template: dict[str, Any]) -> dict[str, Any]:
    [container] = [item for item in template["spec"]["containers"] if item["name"] == "runtime"]
    found: dict[str, Any] = container
    return found


def test_nothing_said_changes_nothing() -> None:
    assert template() == pod.template(parsed())


def test_labels_and_annotations_are_added_and_the_operators_win() -> None:
    found = template(labels={"team": "a", "app.kubernetes.io/name": "x"}, annotations={"note": "b"})["metadata"]
    assert found["annotations"] == {"note": "b"}
    assert found["labels"]["team"] == "a"
    assert found["labels"]["app.kubernetes.io/name"] == "octavo-runtime"


def test_the_runtimes_container_is_merged_and_others_stand_beside_it() -> None:
    env = [{"name": "HF_ENDPOINT", "value": "http://hub"}, {"name": "HOME", "value": "/home"}]
    sidecar = {"name": "proxy", "image": "proxy:1"}
    found = template({"containers": [sidecar, {"name": "runtime", "env": env, "imagePullPolicy": "Always"}]})
    assert [item["name"] for item in found["spec"]["containers"]] == ["runtime", "proxy"]
    container = runtime(found)
    assert container["env"] == [{"name": "HOME", "value": "/home"}, {"name": "HF_ENDPOINT", "value": "http://hub"}]
    assert container["command"] == ["octavo"]
    assert container["imagePullPolicy"] == "Always"


def test_a_volume_replaces_that_of_its_name_whole() -> None:
    found = template({"volumes": [{"name": "tmp", "ephemeral": {}}, {"name": "more", "emptyDir": {}}]})
    assert found["spec"]["volumes"] == [
        {"name": "tmp", "ephemeral": {}},
        {"name": "run", "emptyDir": {"sizeLimit": "256Mi"}},
        {"name": "more", "emptyDir": {}},
    ]


def test_maps_are_merged_and_lists_without_keys_replaced() -> None:
    gpu = {"nodeSelector": {"disk": "fast"}, "tolerations": [{"key": "a", "operator": "Exists"}]}
    extra = {
        "nodeSelector": {"zone": "b"},
        "tolerations": [{"key": "b", "operator": "Exists"}],
        "securityContext": {"supplementalGroups": [7]},
    }
    spec = pod.template(parsed(device="gpu", gpu=gpu, podTemplate={"spec": extra}))["spec"]
    assert spec["nodeSelector"] == {"disk": "fast", "zone": "b"}
    assert spec["tolerations"] == [{"key": "b", "operator": "Exists"}]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["supplementalGroups"] == [7]


def test_quantities_are_canonical_and_nulls_are_left_out() -> None:
    resources = {"requests": {"ephemeral-storage": "1024Mi"}, "limits": {"example.com/thing": 2}}
    volumes = [{"name": "tmp", "emptyDir": {"sizeLimit": "2048Mi"}}]
    extra = {"containers": [{"name": "runtime", "resources": resources}], "volumes": volumes, "nodeSelector": None}
    found = template(extra)
    assert runtime(found)["resources"] == {
        "requests": {"ephemeral-storage": "1Gi"},
        "limits": {"example.com/thing": "2"},
    }
    assert found["spec"]["volumes"][0] == {"name": "tmp", "emptyDir": {"sizeLimit": "2Gi"}}
    assert "nodeSelector" not in found["spec"]


def test_a_quantity_that_is_none_names_its_field() -> None:
    with pytest.raises(SpecError, match=r"spec\.podTemplate\.spec\.volumes\[0\]\.emptyDir\.sizeLimit: 'much'"):
        template({"volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "much"}}]})


def contained(**context: Any) -> dict[str, Any]:
    return {"containers": [{"name": "runtime", "securityContext": context}]}


@pytest.mark.parametrize(
    ("pod_spec", "power"),
    [
        pytest.param({"hostNetwork": True}, "hostNamespaces", id="network of the node"),
        pytest.param({"hostPID": True}, "hostNamespaces", id="processes of the node"),
        pytest.param(
            {"containers": [{"name": "x", "ports": [{"containerPort": 1, "hostPort": 1}]}]},
            "hostNamespaces",
            id="port of the node",
        ),
        pytest.param({"serviceAccountName": "admin"}, "serviceAccountName", id="account"),
        pytest.param({"automountServiceAccountToken": True}, "serviceAccountName", id="token"),
        pytest.param(
            {"volumes": [{"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}}]},
            "serviceAccountName",
            id="token in a volume",
        ),
        pytest.param(contained(privileged=True), "privileged", id="privileged"),
        pytest.param(contained(allowPrivilegeEscalation=True), "privileged", id="escalation"),
        pytest.param(contained(capabilities={"add": ["NET_ADMIN"]}), "privileged", id="capability"),
        pytest.param(contained(runAsUser=0), "privileged", id="root"),
        pytest.param({"securityContext": {"runAsNonRoot": False}}, "privileged", id="pod that may be root"),
        pytest.param({"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "privileged", id="no seccomp"),
        pytest.param(contained(appArmorProfile={"type": "Unconfined"}), "privileged", id="no AppArmor"),
        pytest.param(
            {"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}, "privileged", id="pod without AppArmor"
        ),
        pytest.param(contained(procMount="Unmasked"), "privileged", id="all of proc"),
        pytest.param(contained(windowsOptions={"hostProcess": True}), "privileged", id="host process"),
        pytest.param({"securityContext": {"sysctls": [{"name": "a", "value": "1"}]}}, "privileged", id="sysctl"),
        pytest.param(
            {"initContainers": [{"name": "i", "securityContext": {"privileged": True}}]},
            "privileged",
            id="init container",
        ),
    ],
)
def test_what_adds_rights_needs_the_administrator(pod_spec: dict[str, Any], power: str) -> None:
    wanted = parsed(podTemplate={"spec": pod_spec})
    with pytest.raises(
        SpecError, match=f"add {power} to the chart's allow.inPodTemplate .*--allow-in-pod-template={power}"
    ):
        allowances.check(wanted, Installation())
    allowances.check(wanted, Installation(powers=frozenset({power})))


@pytest.mark.parametrize("container", ["runtime", "proxy"])
def test_an_annotation_that_takes_apparmor_away_needs_the_administrator(container: str) -> None:
    annotations = {f"container.apparmor.security.beta.kubernetes.io/{container}": "unconfined"}
    wanted = parsed(podTemplate={"annotations": annotations})
    with pytest.raises(SpecError, match=rf"annotations\[.*/{container}\] is not allowed here.*=privileged"):
        allowances.check(wanted, Installation())
    allowances.check(wanted, Installation(powers=frozenset({"privileged"})))


def test_what_plain_pods_may_is_allowed() -> None:
    context = {
        "runAsUser": 1000,
        "capabilities": {"drop": ["ALL"]},
        "allowPrivilegeEscalation": False,
        "appArmorProfile": {"type": "RuntimeDefault"},
    }
    spec = {**contained(**context), "hostNetwork": False, "priorityClassName": "high", "volumes": []}
    annotations = {"container.apparmor.security.beta.kubernetes.io/runtime": "runtime/default", "note": "unconfined"}
    allowances.check(parsed(podTemplate={"spec": spec, "annotations": annotations}), Installation())


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        pytest.param("/data/models", ("/data/models",), id="the folder"),
        pytest.param("/data/models/llama", ("/srv", "/data/models/"), id="below it"),
        pytest.param("/data//models/./llama", ("/data/models",), id="written differently"),
    ],
)
def test_folders_of_nodes_below_those_that_are_allowed(path: str, allowed: tuple[str, ...]) -> None:
    cached = {"source": "hf://org/repo", "cache": {"hostPath": {"path": path}}}
    allowances.check(parsed(model=cached), Installation(host_paths=allowed))


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        pytest.param("/data", (), id="none is allowed"),
        pytest.param("/data-of-others", ("/data",), id="a neighbour"),
        pytest.param("/data/../etc", ("/data",), id="climbs"),
        pytest.param("/", ("/data",), id="above"),
    ],
)
def test_other_folders_of_nodes_are_refused(path: str, allowed: tuple[str, ...]) -> None:
    cached = parsed(model={"source": "hf://org/repo", "cache": {"hostPath": {"path": path}}})
    mounted = parsed(podTemplate={"spec": {"volumes": [{"name": "x", "hostPath": {"path": path}}]}})
    for wanted in (cached, mounted):
        with pytest.raises(SpecError, match=r"only below those that the chart's allow\.hostPaths .*--allow-host-path"):
            allowances.check(wanted, Installation(host_paths=allowed))
