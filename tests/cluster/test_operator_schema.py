"""The InferenceService's schema in a real API server: what it fills in and keeps, how it prints and scales, what it costs.

What it refuses and says stands in `test_schema_….py`, by groups of fields.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.installation import REPOSITORY
from tests.cluster.kubectl import CommandError, Kubectl
from tests.cluster.schema import FILE, stored
from tests.operator.live import KIND, service, shared_namespace

EXAMPLES = sorted((REPOSITORY / "crds" / "examples").glob("*.yaml"))


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


@pytest.mark.parametrize("name", ["a" * 41, "1st", "a.b"])
def test_refuses_names_that_children_cannot_have(octavo: Kubectl, name: str) -> None:
    with pytest.raises(CommandError, match="Choose a shorter or simpler name"):
        stored(octavo, service(name))


def test_fills_in_defaults_but_no_replicas(octavo: Kubectl) -> None:
    body = service("schema")
    body["spec"] = {"model": FILE, "gpu": {}, "rollout": {}}
    found = stored(octavo, body)
    assert found["spec"] == {
        "model": FILE,
        "device": "gpu",
        "parallelism": {"nodes": 1, "tensor": 1},
        "gpu": {"resource": "nvidia.com/gpu"},
        "rollout": {"drainTimeoutSeconds": 60},
    }
    assert found["status"] == {"observedGeneration": -1}


def test_the_device_cannot_be_changed(octavo: Kubectl, namespace: Kubectl) -> None:
    namespace.apply(service("fixed", suspend=True))
    with pytest.raises(CommandError, match="make a second one with another name"):
        namespace.patch(KIND, "fixed", {"spec": {"device": "gpu"}})
    namespace.patch(KIND, "fixed", {"spec": {"replicas": 2}})


@pytest.mark.parametrize("example", [pytest.param(path, id=path.stem) for path in EXAMPLES])
def test_takes_every_example(octavo: Kubectl, example: Path) -> None:
    assert yaml.safe_load(example.read_text())["kind"] == "InferenceService"
    octavo.run("apply", "--dry-run=server", f"--filename={example}")
    octavo.run("apply", "--server-side", "--dry-run=server", f"--filename={example}")


@pytest.mark.parametrize(
    ("field", "says"),
    [
        pytest.param("spec.parallelism", "Tensor-parallel degree", id="parallelism"),
        pytest.param("spec.runtime.kvCache.memory", "in bytes", id="KV memory"),
        pytest.param("spec.runtime.maxNumSeqs", "64, halved while most prompts are longer than 8192", id="sequences"),
        pytest.param("spec.runtime.schedulerDelayMs", "Milliseconds", id="delay"),
        pytest.param("spec.rollout.drainTimeoutSeconds", "Seconds", id="drain"),
        pytest.param("status", "Ready (every desired pod updated and ready)", id="conditions"),
    ],
)
def test_explains_its_fields(octavo: Kubectl, field: str, says: str) -> None:
    text = " ".join(octavo.run("explain", f"inferenceservices.{field}").split())
    assert says in text


def test_prints_and_scales_by_its_short_name(octavo: Kubectl, namespace: Kubectl) -> None:
    namespace.apply(service("columns", suspend=True, replicas=1))
    header, line = namespace.run("get", "oisvc", "columns").splitlines()
    assert header.split() == ["NAME", "MODEL", "TP", "READY", "REASON", "REPLICAS", "BLOCKS", "DEGRADED", "AGE"]
    assert line.split()[:3] == ["columns", "file:///models/smollm2.gguf", "1"]
    assert "columns" in namespace.run("get", "octavo", "--output=name")
    namespace.run("scale", "oisvc/columns", "--replicas=3")
    found = namespace.get(KIND, "columns")
    assert found is not None
    assert found["spec"]["replicas"] == 3


def test_each_rule_costs_under_a_tenth_of_the_budget(octavo: Kubectl) -> None:
    """The API server refuses a rule over its estimated cost limit; ten of each in a row must still pass, fifty do not."""
    crd = yaml.safe_load((REPOSITORY / "crds" / "inferenceservices.yaml").read_text())
    crd["metadata"]["name"] = "inferenceservices.budget.octavo.dev"
    crd["spec"]["group"] = "budget.octavo.dev"
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert repeat_rules(schema, 10) > 10
    octavo.run("create", "--dry-run=server", "--filename=-", stdin=json.dumps(crd))
    repeat_rules(schema, 5)
    with pytest.raises(CommandError, match="exceeds budget"):
        octavo.run("create", "--dry-run=server", "--filename=-", stdin=json.dumps(crd))


def repeat_rules(schema: Any, times: int) -> int:
    """Makes each rule below `schema` that often its own conjunction. Returns how many rules there are."""
    if isinstance(schema, list):
        return sum(repeat_rules(below, times) for below in schema)
    if not isinstance(schema, dict):
        return 0
    rules = schema.get("x-kubernetes-validations", [])
    for rule in rules:
        rule["rule"] = " && ".join([f"({rule['rule']})"] * times)
    return len(rules) + sum(repeat_rules(below, times) for below in schema.values())
