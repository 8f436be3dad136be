"""What the API server refuses, and takes, of an InferenceService's fields: devices, resources, templates and rollouts."""

from typing import Any

import pytest

from tests.cluster.kubectl import Kubectl
from tests.cluster.schema import refusal, stored
from tests.operator.live import service


@pytest.mark.parametrize(
    ("spec", "says"),
    [
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
        pytest.param({"rollout": {"strategy": "Canary"}}, "Unsupported value", id="unknown strategy"),
        pytest.param({"rollout": {"drainTimeoutSeconds": 3601}}, "less than or equal to 3600", id="endless drain"),
        pytest.param({"replica": 1}, "unknown field", id="misspelt field"),
    ],
)
def test_refuses_what_cannot_be_and_says_how_to_mend_it(octavo: Kubectl, spec: dict[str, Any], says: str) -> None:
    assert says in refusal(octavo, service("schema", **spec))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"resources": {"cpu": 2, "memory": 4294967296}}, id="whole numbers"),
        pytest.param({"resources": {"cpu": "1500m", "memory": "1.5Gi"}}, id="fractions"),
        pytest.param({"resources": {"memory": "4294967296"}}, id="bytes in text"),
        pytest.param(
            {"podTemplate": {"spec": {"containers": [{"name": "runtime", "env": [{"name": "A"}]}, {"name": "x"}]}}},
            id="any field of a pod",
        ),
        pytest.param({"parallelism": {"tensor": 3}}, id="any tensor degree on a cpu"),
        pytest.param({"device": "gpu", "gpu": {"tolerations": [{"operator": "Exists"}]}}, id="tolerate everything"),
    ],
)
def test_takes_what_can_be(octavo: Kubectl, spec: dict[str, Any]) -> None:
    stored(octavo, service("a" * 40, **spec))
