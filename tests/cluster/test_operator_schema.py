"""The InferenceService's schema in a real API server: what it refuses and says, what it fills in, how it prints and scales; and
what the operator does where another writer will not let it keep a child as the spec says.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.installation import REPOSITORY
from tests.cluster.kubectl import CommandError, Kubectl, wait_for
from tests.operator.live import KIND, applied, service, shared_namespace, wait_for_condition

EXAMPLES = sorted((REPOSITORY / "crds" / "examples").glob("*.yaml"))
FILE = {"source": "file:///models/smollm2.gguf"}
HUB = {"source": "hf://org/repo@main"}


SCALED = {"maxReplicas": 4}
QUEUE = {"type": "QueueLength"}


def scaled_by(*metrics: dict[str, Any]) -> dict[str, Any]:
    return {"autoscaling": {**SCALED, "metrics": list(metrics)}}


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


def dry_run(kubectl: Kubectl, body: dict[str, Any]) -> dict[str, Any]:
    """What the API server would store."""
    text = kubectl.run("create", "--dry-run=server", "--output=json", "--filename=-", stdin=json.dumps(body))
    stored: dict[str, Any] = json.loads(text)
    return stored


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param({"model": {"source": "s3://bucket/x"}}, "must be file:///path", id="source of another kind"),
        pytest.param({"model": {"source": "hf://org"}}, "must be file:///path", id="hub without a repository"),
        pytest.param(
            {"model": {"source": "hf://org/repo/model.bin"}}, "must be file:///path", id="file of another kind"
        ),
        pytest.param({"model": {"source": "oci://registry/image"}}, "must be file:///path", id="image without a tag"),
        pytest.param({"model": {**HUB, "cache": {}}}, "must have exactly one of", id="cache of no kind"),
        pytest.param(
            {"model": {**HUB, "cache": {"emptyDir": {}, "hostPath": {"path": "/data"}}}},
            "must have exactly one of",
            id="cache of two kinds",
        ),
        pytest.param(
            {"model": {**HUB, "cache": {"hostPath": {"path": "/data/../etc"}}}}, "without '..'", id="cache that climbs"
        ),
        pytest.param(
            {"model": {**FILE, "cache": {"emptyDir": {}}}, "device": "gpu"}, "remove spec.model.cache", id="idle cache"
        ),
        pytest.param({"model": {**FILE, "tokenSecretRef": {"name": "a"}}}, "or use an hf:// source", id="idle token"),
        pytest.param({"auth": {}}, "apiKeySecretRef: Required value", id="no keys"),
        pytest.param({"model": {"source": "file://models/x"}}, "must be file:///path", id="file with a host"),
        pytest.param({"model": {"source": "pvc://claim"}}, "must be file:///path", id="claim without a path"),
        pytest.param({"model": {"source": "file:///a/../b"}}, "must not contain '..'", id="source that climbs"),
        pytest.param({"model": {"source": "file:///a b"}}, "spaces", id="source with a space"),
        pytest.param({"model": {"source": "file:///" + "x" * 1100}}, "1024", id="source too long"),
        pytest.param({"model": {**FILE, "dtype": "float16"}}, "Unsupported value", id="unknown dtype"),
        pytest.param({"model": {}}, "source: Required value", id="no source"),
        pytest.param({"device": "tpu"}, "Unsupported value", id="unknown device"),
        pytest.param({"gpu": {"nodeSelector": {"a": "b"}}}, "remove spec.gpu", id="gpu block on a cpu"),
        pytest.param({"parallelism": {"tensor": 0}}, "greater than or equal to 1", id="no tensor degree"),
        pytest.param({"device": "gpu", "gpu": {"resource": "gpu"}}, "write domain/name", id="resource without domain"),
        pytest.param(
            {"device": "gpu", "gpu": {"tolerations": [{"effect": "NoSchedule"}]}},
            "add key, or set operator to Exists",
            id="toleration without key",
        ),
        pytest.param(
            {"device": "gpu", "gpu": {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]}},
            "remove value, or use operator Equal",
            id="toleration that exists with a value",
        ),
        pytest.param(
            {"device": "gpu", "gpu": {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]}},
            "set effect to NoExecute",
            id="toleration with seconds",
        ),
        pytest.param({"resources": {"cpu": "0"}}, "more than zero cores", id="no cores"),
        pytest.param({"resources": {"cpu": "two"}}, "more than zero cores", id="cores in words"),
        pytest.param({"resources": {"memory": "1GB"}}, "such as 512Mi or 16Gi", id="memory with a wrong suffix"),
        pytest.param({"resources": {"memory": -1}}, "more than zero bytes", id="negative memory"),
        pytest.param({"resources": {"memory": "0Gi"}}, "more than zero bytes", id="no memory"),
        pytest.param({"resources": {"memory": 16}}, "at least 1048576: add a unit", id="memory without a unit"),
        pytest.param(
            {"resources": {"memory": "16"}}, "at least 1048576: add a unit", id="memory in text without a unit"
        ),
        pytest.param(
            {"runtime": {"kvCache": {"memory": 1048575}}}, "at least 1048576: add a unit", id="KV memory without a unit"
        ),
        pytest.param({"runtime": {"maxModelLen": 1}}, "greater than or equal to 2", id="no room for an answer"),
        pytest.param({"runtime": {"kvCache": {"memory": "0Mi"}}}, "more than zero bytes", id="no KV memory"),
        pytest.param({"runtime": {"blockSize": 17}}, "Unsupported value", id="odd page size"),
        pytest.param(
            {"runtime": {"maxNumSeqs": 64, "maxNumBatchedTokens": 32}},
            "raise maxNumBatchedTokens",
            id="fewer tokens than sequences",
        ),
        pytest.param(
            {"runtime": {"maxNumSeqs": 513}},
            "raise maxNumBatchedTokens",
            id="fewer tokens than sequences by default",
        ),
        pytest.param({"runtime": {"schedulerDelayMs": -1}}, "greater than or equal to 0", id="negative delay"),
        pytest.param({"runtime": {"schedulerDelayMs": 1001}}, "less than or equal to 1000", id="delay too long"),
        pytest.param({"runtime": {"schedulerDelayMs": 0.5}}, "must be of type integer", id="part of a millisecond"),
        pytest.param({"runtime": {"prefixCaching": "no"}}, "must be of type boolean", id="switch in words"),
        pytest.param({"runtime": {"chunkedPrefill": False}}, "add both maxNumBatchedTokens and", id="no chunks alone"),
        pytest.param(
            {"runtime": {"chunkedPrefill": False, "maxModelLen": 512}},
            "add both maxNumBatchedTokens and",
            id="no chunks and no step's length",
        ),
        pytest.param(
            {"runtime": {"chunkedPrefill": False, "maxNumBatchedTokens": 512}},
            "add both maxNumBatchedTokens and",
            id="no chunks and no prompt's length",
        ),
        pytest.param(
            {"runtime": {"chunkedPrefill": False, "maxNumBatchedTokens": 511, "maxModelLen": 512}},
            "raise maxNumBatchedTokens, lower maxModelLen",
            id="no chunks and a longer prompt",
        ),
        pytest.param({"runtime": {"extraArgs": ["verbose"]}}, "must be --flag=value", id="argument that is no flag"),
        pytest.param({"runtime": {"extraArgs": ["--port=1"]}}, "which the operator sets", id="flag of the operator"),
        pytest.param({"runtime": {"extraArgs": ["--device=cpu"]}}, "what has a field", id="flag with a field"),
        pytest.param({"runtime": {"extraArgs": ["--no-prefix-caching"]}}, "has a field", id="switch with a field"),
        pytest.param({"runtime": {"upgrade": "Never"}}, "Unsupported value", id="unknown upgrade"),
        pytest.param({"runtime": {"gpuMemoryPercent": 0}}, "greater than or equal to 1", id="no GPU memory"),
        pytest.param({"runtime": {"kvCache": {"dtype": "int4"}}}, "Unsupported value", id="unknown KV format"),
        pytest.param(
            {"runtime": {"prefixCaching": False, "kvCache": {"tiers": {"cpu": {"memory": "1Gi"}}}}},
            "remove one of them",
            id="tier that nothing is found in",
        ),
        pytest.param({"runtime": {"warmup": {"sequences": 4}}}, "greater than or equal to 5", id="short warm-up"),
        pytest.param(
            {"runtime": {"degradation": {"enabled": False, "allowLossy": True}}},
            "remove one of them",
            id="loss without degradation",
        ),
        pytest.param(
            {"podTemplate": {"labels": {"serving.octavo.dev/service": "x"}}}, "which are the operator's", id="our label"
        ),
        pytest.param(
            {"podTemplate": {"annotations": {"serving.octavo.dev/renderer": "x"}}},
            "is the operator's",
            id="our annotation",
        ),
        pytest.param(
            {"podTemplate": {"spec": {"containers": [{"name": "runtime", "command": ["sh"]}]}}},
            "use spec.runtime.image and spec.runtime.extraArgs",
            id="the runtime's command",
        ),
        pytest.param(
            {"podTemplate": {"spec": {"terminationGracePeriodSeconds": 1}}},
            "spec.rollout.drainTimeoutSeconds",
            id="grace period",
        ),
        pytest.param({"runtime": {"image": "a b"}}, "must not contain spaces", id="image with a space"),
        pytest.param({"replicas": -1}, "greater than or equal to 0", id="negative replicas"),
        pytest.param({"rollout": {"strategy": "Canary"}}, "Unsupported value", id="unknown strategy"),
        pytest.param({"rollout": {"drainTimeoutSeconds": 3601}}, "less than or equal to 3600", id="endless drain"),
        pytest.param({"replica": 1}, "unknown field", id="misspelt field"),
        pytest.param({"replicas": 2, "autoscaling": SCALED}, "exclude one another", id="replicas beside an autoscaler"),
        pytest.param({"autoscaling": {"minReplicas": 5, "maxReplicas": 4}}, "lower the one", id="least above most"),
        pytest.param({"autoscaling": {**SCALED, "minReplicas": 0}}, "greater than or equal to 1", id="least of zero"),
        pytest.param({"autoscaling": {"minReplicas": 1}}, "maxReplicas: Required value", id="no most"),
        pytest.param(scaled_by(QUEUE | {"targetPercent": 70}), "use targetPerReplica", id="target of another metric"),
        pytest.param(scaled_by({"type": "PredictedDeficit"}), "needs targetBlocksPerReplica", id="deficit of nothing"),
        pytest.param(scaled_by(QUEUE, QUEUE), "Duplicate value", id="one metric twice"),
        pytest.param(
            {"autoscaling": {**SCALED, "behavior": {"scaleUp": {"tolerance": "5%"}}}},
            "such as 50m or 0.05",
            id="tolerance in percent",
        ),
    ],
)
def test_refuses_what_cannot_be_and_says_how_to_mend_it(octavo: Kubectl, spec: dict[str, Any], says: str) -> None:
    with pytest.raises(CommandError) as refused:
        dry_run(octavo, service("schema", **spec))
    assert says in refused.value.stderr


@pytest.mark.parametrize("name", ["a" * 41, "1st", "a.b"])
def test_refuses_names_that_children_cannot_have(octavo: Kubectl, name: str) -> None:
    with pytest.raises(CommandError, match="Choose a shorter or simpler name"):
        dry_run(octavo, service(name))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"resources": {"cpu": 2, "memory": 4294967296}}, id="whole numbers"),
        pytest.param({"resources": {"cpu": "1500m", "memory": "1.5Gi"}}, id="fractions"),
        pytest.param({"model": {"source": "pvc://my.claim/llama/8b"}}, id="a claim"),
        pytest.param({"resources": {"memory": "4294967296"}}, id="bytes in text"),
        pytest.param({"model": HUB}, id="a hub's repository"),
        pytest.param({"model": {"source": "hf://org/repo/a/b.gguf@v1.0"}}, id="a file of a hub's revision"),
        pytest.param({"model": {"source": "oci://registry.example:5000/a/b:v1/dir/c.gguf"}}, id="a file of an image"),
        pytest.param({"model": {"source": "oci://registry.example/b@sha256:0f"}}, id="an image of a digest"),
        pytest.param({"model": {**FILE, "cache": {"hostPath": {"path": "/data"}}}}, id="weights for CPU kernels"),
        pytest.param(
            {"podTemplate": {"spec": {"containers": [{"name": "runtime", "env": [{"name": "A"}]}, {"name": "x"}]}}},
            id="any field of a pod",
        ),
        pytest.param({"runtime": {"kvCache": {"memory": 1048576}, "maxModelLen": 2}}, id="the least there can be"),
        pytest.param({"replicas": 0}, id="no replicas"),
        pytest.param({"autoscaling": SCALED}, id="scaled by default"),
        pytest.param(
            scaled_by(
                {"type": "BlockUtilization", "targetPercent": 100},
                QUEUE,
                {"type": "PredictedDeficit", "targetBlocksPerReplica": 1},
            ),
            id="scaled by all metrics",
        ),
        pytest.param(
            {"autoscaling": {**SCALED, "behavior": {"scaleUp": {"tolerance": 0}, "scaleDown": {"tolerance": "0.05"}}}},
            id="tolerances",
        ),
        pytest.param({"runtime": {"schedulerDelayMs": 0, "prefixCaching": False}}, id="no delay and no prefix caching"),
        pytest.param({"runtime": {"schedulerDelayMs": 1000, "chunkedPrefill": True}}, id="the longest delay, chunks"),
        pytest.param(
            {"runtime": {"chunkedPrefill": False, "maxNumBatchedTokens": 512, "maxModelLen": 512}},
            id="no chunks and steps that hold a prompt",
        ),
        pytest.param({"parallelism": {"tensor": 3}}, id="any tensor degree on a cpu"),
        pytest.param({"runtime": {"extraArgs": ["--max-num-queued-reqs=1", "--verbose"]}}, id="other flags"),
        pytest.param({"device": "gpu", "gpu": {"tolerations": [{"operator": "Exists"}]}}, id="tolerate everything"),
    ],
)
def test_takes_what_can_be(octavo: Kubectl, spec: dict[str, Any]) -> None:
    dry_run(octavo, service("a" * 40, **spec))


def test_fills_in_defaults_but_no_replicas(octavo: Kubectl) -> None:
    body = service("schema")
    body["spec"] = {"model": FILE, "gpu": {}, "rollout": {}}
    stored = dry_run(octavo, body)
    assert stored["spec"] == {
        "model": FILE,
        "device": "gpu",
        "parallelism": {"nodes": 1, "tensor": 1},
        "gpu": {"resource": "nvidia.com/gpu"},
        "rollout": {"drainTimeoutSeconds": 60},
    }
    assert stored["status"] == {"observedGeneration": -1}


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


def test_each_rule_costs_under_a_tenth_of_the_budget(octavo: Kubectl) -> None:
    """The API server refuses a rule over its estimated cost limit; ten of each in a row must still pass."""
    crd = yaml.safe_load((REPOSITORY / "crds" / "inferenceservices.yaml").read_text())
    crd["metadata"]["name"] = "inferenceservices.budget.octavo.dev"
    crd["spec"]["group"] = "budget.octavo.dev"
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert repeat_rules(schema, 10) > 10
    octavo.run("create", "--dry-run=server", "--filename=-", stdin=json.dumps(crd))
    repeat_rules(schema, 10)
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
