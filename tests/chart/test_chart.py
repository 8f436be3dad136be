"""The chart as helm renders it: what it installs, what it refuses, and with which rights."""

import json
import subprocess
from typing import Any

import pytest
import yaml

from octavo_operator import __version__, options
from tests.chart.render import CHART
from tests.cluster.onenode import binaries

Object = dict[str, Any]
VALUES: Object = {
    "operator": {"image": "registry.example/octavo-operator:1"},
    "runtime": {"image": "registry.example/rt:1"},
}


def helm(*arguments: str, values: Object | None = None) -> subprocess.CompletedProcess[str]:
    program = binaries.path("helm")
    if not program.exists():
        pytest.skip("helm is not built yet: `make cluster` builds it")
    stdin = None if values is None else json.dumps(values)
    return subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=60)


def template(values: Object) -> subprocess.CompletedProcess[str]:
    # Without a cluster to ask, helm takes the version that it was built with for the cluster's.
    words = ["--namespace=octavo-system", "--kube-version=1.37.0", "--values=-"]
    return helm("template", "octavo", str(CHART), *words, values={**VALUES, **values})


def rendered(**values: Any) -> dict[tuple[str, str], Object]:
    """The chart's objects by kind and name."""
    done = template(values)
    assert done.returncode == 0, done.stderr
    objects = [item for item in yaml.safe_load_all(done.stdout) if item]
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def operator_pod(objects: dict[tuple[str, str], Object]) -> Object:
    pod: Object = objects["Deployment", "octavo-operator"]["spec"]["template"]["spec"]
    return pod


def rules(objects: dict[tuple[str, str], Object], kind: str) -> list[Object]:
    found: list[Object] = objects[kind, "octavo-system-octavo-operator"]["rules"]
    return found


def test_lints_without_a_warning() -> None:
    done = helm("lint", "--strict", str(CHART), "--values=-", values=VALUES)
    assert done.returncode == 0, done.stdout


def test_its_version_is_the_packages() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_installs_the_operator_for_the_whole_cluster() -> None:
    assert set(rendered()) == {
        ("CustomResourceDefinition", "inferenceservices.serving.octavo.dev"),
        ("ServiceAccount", "octavo-operator"),
        ("ClusterRole", "octavo-system-octavo-operator"),
        ("ClusterRole", "octavo-system-octavo-operator-edit"),
        ("ClusterRole", "octavo-system-octavo-operator-view"),
        ("ClusterRoleBinding", "octavo-system-octavo-operator"),
        ("Deployment", "octavo-operator"),
    }


def test_leaves_out_what_is_switched_off() -> None:
    names = {kind for kind, _ in rendered(crds={"install": False}, rbac={"aggregate": False})}
    assert names == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Deployment"}


def test_watches_only_the_named_namespaces_and_has_rights_only_there() -> None:
    objects = rendered(watch={"namespaces": ["team-a"]}, rbac={"aggregate": False})
    assert ("ClusterRole", "octavo-system-octavo-operator") not in objects
    assert objects["Role", "octavo-system-octavo-operator"]["metadata"]["namespace"] == "team-a"
    binding = objects["RoleBinding", "octavo-system-octavo-operator"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "octavo-operator", "namespace": "octavo-system"}]
    assert "--namespace=team-a" in operator_pod(objects)["containers"][0]["args"]
    assert rules(objects, "Role") == rules(rendered(), "ClusterRole")


def test_its_rights_are_the_least() -> None:
    granted = rules(rendered(), "ClusterRole")
    assert "*" not in json.dumps(granted)
    assert {
        (resource, verb)
        for rule in granted
        for resource in rule["resources"]
        for verb in rule["verbs"]
        if verb not in ("get", "list", "watch")
    } == {
        ("deployments", "create"),
        ("deployments", "patch"),
        ("inferenceservices/finalizers", "update"),
        ("inferenceservices/status", "patch"),
        ("services", "create"),
        ("services", "patch"),
    }
    assert {resource for rule in granted for resource in rule["resources"]} == {
        "deployments",
        "inferenceservices",
        "inferenceservices/finalizers",
        "inferenceservices/status",
        "persistentvolumeclaims",
        "pods",
        "services",
    }


def test_the_operators_pod_is_locked_down_and_probed() -> None:
    pod = operator_pod(rendered())
    [container] = pod["containers"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 65532)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}


def test_the_operator_understands_its_arguments() -> None:
    values = {
        "operator": {**VALUES["operator"], "args": ["--workers=16"], "logLevel": "debug"},
        "watch": {"namespaces": ["a", "b"]},
    }
    found = options.parse(operator_pod(rendered(**values))["containers"][0]["args"], {})
    assert (found.workers, found.log_level, found.namespaces) == (16, "debug", ("a", "b"))
    assert found.runtime_image == VALUES["runtime"]["image"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        pytest.param({"operator": {"image": ""}}, "set operator.image", id="no image"),
        pytest.param({"operator": {"imge": "x:1"}}, "imge", id="a misspelt value"),
        pytest.param({"replicas": 2}, "replicas", id="an unknown value"),
        pytest.param({"watch": {"namespaces": ["Team_A"]}}, "namespaces", id="no namespace's name"),
        pytest.param({"operator": {"image": "x:1", "logLevel": "loud"}}, "logLevel", id="an unknown level"),
    ],
)
def test_refuses_wrong_values_by_name(values: Object, says: str) -> None:
    done = template(values)
    assert done.returncode != 0
    assert says in done.stderr
