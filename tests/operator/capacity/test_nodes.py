from typing import Any

import pytest

from octavo_operator.capacity import nodes


def live(name: str = "n1", *, ready: str = "True", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "gpu": "h200", "count": "8"}},
        "spec": spec,
        "status": {
            "allocatable": {"nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "MemoryPressure", "status": "False"}, {"type": "Ready", "status": ready}],
        },
    }


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, **({"values": list(values)} if values else {})}]}


TAINT = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("node", "pod", "why"),
    [
        pytest.param(live(), {}, "", id="open to all"),
        pytest.param(live(ready="Unknown"), {}, "not ready", id="not heard of"),
        pytest.param(live(unschedulable=True), {}, "cordoned", id="cordoned"),
        pytest.param(
            live(unschedulable=True), {"tolerations": [{"operator": "Exists"}]}, "", id="cordoned and tolerated"
        ),
        pytest.param(live(), {"nodeSelector": {"gpu": "h200"}}, "", id="selected"),
        pytest.param(live(), {"nodeSelector": {"gpu": "a100"}}, "without the labels", id="another label"),
        pytest.param(live(), {"nodeSelector": {"zone": "a"}}, "without the labels", id="no such label"),
        pytest.param(live(taints=[TAINT]), {}, "tainted", id="tainted"),
        pytest.param(live(taints=[{**TAINT, "effect": "PreferNoSchedule"}]), {}, "", id="a taint that only asks"),
        pytest.param(
            live(taints=[TAINT]),
            {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]},
            "",
            id="key tolerated",
        ),
        pytest.param(
            live(taints=[TAINT]),
            {"tolerations": [{"key": "nvidia.com/gpu", "value": "present"}]},
            "",
            id="value tolerated",
        ),
        pytest.param(
            live(taints=[TAINT]),
            {"tolerations": [{"key": "nvidia.com/gpu", "value": "absent"}]},
            "tainted",
            id="another value tolerated",
        ),
        pytest.param(
            live(taints=[TAINT]),
            {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoExecute"}]},
            "tainted",
            id="another effect tolerated",
        ),
        pytest.param(
            live(taints=[TAINT]),
            {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Gt", "value": "1"}]},
            "tainted",
            id="an operator that is not known",
        ),
        pytest.param(live(), affinity(expression("gpu", "In", "h100", "h200")), "", id="affinity"),
        pytest.param(live(), affinity(expression("gpu", "NotIn", "h200")), "without the labels", id="averse"),
        pytest.param(
            live(),
            affinity(expression("gpu", "In", "a"), expression("count", "Gt", "4")),
            "",
            id="one of two terms holds",
        ),
        pytest.param(live(), affinity(expression("count", "Lt", "4")), "without the labels", id="too many"),
        pytest.param(live(), affinity(expression("zone", "DoesNotExist")), "", id="no such label wanted"),
        pytest.param(live(), affinity(expression("zone", "Exists")), "without the labels", id="such a label wanted"),
        pytest.param(live(), affinity({}), "without the labels", id="a term without expressions"),
        pytest.param(
            live(),
            affinity({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}),
            "without the labels",
            id="another node by name",
        ),
    ],
)
def test_tells_what_keeps_a_pod_from_a_node(node: dict[str, Any], pod: dict[str, Any], why: str) -> None:
    assert nodes.objection(nodes.node(node), pod) == why
