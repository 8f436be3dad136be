"""What the API server refuses, and takes, of an InferenceService's fields: replicas and autoscaling."""

from typing import Any

import pytest

from tests.cluster.kubectl import Kubectl
from tests.cluster.schema import refusal, stored
from tests.operator.live import service

SCALED = {"maxReplicas": 4}
QUEUE = {"type": "QueueLength"}


def scaled_by(*metrics: dict[str, Any]) -> dict[str, Any]:
    return {"autoscaling": {**SCALED, "metrics": list(metrics)}}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param({"replicas": -1}, "greater than or equal to 0", id="negative replicas"),
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
    assert says in refusal(octavo, service("schema", **spec))


@pytest.mark.parametrize(
    "spec",
    [
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
    ],
)
def test_takes_what_can_be(octavo: Kubectl, spec: dict[str, Any]) -> None:
    stored(octavo, service("a" * 40, **spec))
