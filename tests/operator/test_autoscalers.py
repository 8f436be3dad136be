"""The HorizontalPodAutoscaler and the ScaledObject that services ask for."""

from typing import Any

import pytest

from octavo_operator import kinds
from octavo_operator.desired.hpa import autoscaler
from octavo_operator.desired.scaledobject import query, scaled_object
from octavo_operator.spec import autoscaling
from octavo_operator.spec.errors import SpecError
from tests.operator.samples import UID, parsed

URL = "http://prometheus.monitoring.svc:9090"


def hpa(tolerance_served: bool = True, **spec: Any) -> dict[str, Any]:
    service = parsed(autoscaling={"minReplicas": 2, "maxReplicas": 8, **spec})
    assert service.autoscaling is not None
    return autoscaler(service, service.autoscaling, kinds.DEPLOYMENT, tolerance_served=tolerance_served)


def keda(tolerance_served: bool = True, **spec: Any) -> dict[str, Any]:
    service = parsed(autoscaling={"minReplicas": 2, "maxReplicas": 8, "provider": "keda", **spec})
    assert service.autoscaling is not None
    return scaled_object(service, service.autoscaling, kinds.DEPLOYMENT, URL, tolerance_served=tolerance_served)


def test_nothing_is_scaled_that_does_not_ask() -> None:
    service = parsed(replicas=3)
    assert service.autoscaling is None
    assert service.most_replicas == 3
    assert parsed(autoscaling={"maxReplicas": 8}).most_replicas == 8


def test_a_whole_horizontal_pod_autoscaler() -> None:
    labels = {
        "app.kubernetes.io/name": "octavo-runtime",
        "app.kubernetes.io/instance": "chat",
        "app.kubernetes.io/component": "autoscaler",
        "app.kubernetes.io/managed-by": "octavo-operator",
        "serving.octavo.dev/service": "chat",
    }
    owner = {
        "apiVersion": "serving.octavo.dev/v1alpha1",
        "kind": "InferenceService",
        "name": "chat",
        "uid": UID,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert hpa() == {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "chat-autoscaler", "namespace": "demo", "labels": labels, "ownerReferences": [owner]},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat"},
            "minReplicas": 2,
            "maxReplicas": 8,
            "metrics": [
                {
                    "type": "Pods",
                    "pods": {
                        "metric": {"name": "octavo_kv_block_utilization"},
                        "target": {"type": "AverageValue", "averageValue": "700m"},
                    },
                }
            ],
            "behavior": {"scaleUp": {"tolerance": "20m"}},
        },
    }


@pytest.mark.parametrize(
    ("metric", "series", "average", "threshold"),
    [
        pytest.param(
            {"type": "BlockUtilization"}, "octavo_kv_block_utilization", "700m", "0.7", id="blocks, by default"
        ),
        pytest.param(
            {"type": "BlockUtilization", "targetPercent": 100}, "octavo_kv_block_utilization", "1", "1", id="all blocks"
        ),
        pytest.param({"type": "QueueLength"}, "octavo_requests_waiting", "4", "4", id="queue, by default"),
        pytest.param(
            {"type": "QueueLength", "targetPerReplica": 1000}, "octavo_requests_waiting", "1k", "1000", id="long queue"
        ),
        pytest.param(
            {"type": "PredictedDeficit", "targetBlocksPerReplica": 96},
            "octavo_predicted_deficit_blocks",
            "96",
            "96",
            id="deficit",
        ),
    ],
)
def test_each_metric_is_a_mean_over_the_pods(metric: dict[str, Any], series: str, average: str, threshold: str) -> None:
    [of_hpa] = hpa(metrics=[metric])["spec"]["metrics"]
    assert of_hpa["pods"] == {
        "metric": {"name": series},
        "target": {"type": "AverageValue", "averageValue": average},
    }
    [of_keda] = keda(metrics=[metric])["spec"]["triggers"]
    assert of_keda["metricType"] == "AverageValue"
    assert of_keda["metadata"] == {
        "serverAddress": URL,
        "query": f'sum(last_over_time({series}{{namespace="demo",serving_octavo_dev_service="chat"}}[30s]))',
        "threshold": threshold,
        "ignoreNullValues": "false",
    }


def test_every_metric_has_its_own_name() -> None:
    metrics = [{"type": "BlockUtilization"}, {"type": "QueueLength"}]
    assert [metric["pods"]["metric"]["name"] for metric in hpa(metrics=metrics)["spec"]["metrics"]] == [
        "octavo_kv_block_utilization",
        "octavo_requests_waiting",
    ]
    assert [trigger["name"] for trigger in keda(metrics=metrics)["spec"]["triggers"]] == [
        "blockutilization",
        "queuelength",
    ]


def test_keda_scales_the_same_workload_between_the_same_bounds() -> None:
    spec = keda()["spec"]
    assert spec["scaleTargetRef"] == hpa()["spec"]["scaleTargetRef"]
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, 8)
    assert spec["advanced"] == {"horizontalPodAutoscalerConfig": {"behavior": hpa()["spec"]["behavior"]}}


@pytest.mark.parametrize(
    ("behavior", "served", "expected"),
    [
        pytest.param({}, True, {"scaleUp": {"tolerance": "20m"}}, id="ours upwards"),
        pytest.param({}, False, None, id="nothing where there is no tolerance"),
        pytest.param(
            {"scaleUp": {"tolerance": "0.05"}, "scaleDown": {"stabilizationWindowSeconds": 0}},
            True,
            {"scaleUp": {"tolerance": "50m"}, "scaleDown": {"stabilizationWindowSeconds": 0}},
            id="the user's, canonical",
        ),
        pytest.param(
            {"scaleUp": {"tolerance": "0.05", "selectPolicy": "Min"}, "scaleDown": {"tolerance": "0.2"}},
            False,
            {"scaleUp": {"selectPolicy": "Min"}},
            id="the user's without what is not served",
        ),
    ],
)
def test_behavior_is_the_users_and_bears_what_the_cluster_has(
    behavior: dict[str, Any], served: bool, expected: dict[str, Any] | None
) -> None:
    assert hpa(served, behavior=behavior)["spec"].get("behavior") == expected
    of_keda = keda(served, behavior=behavior)["spec"].get("advanced")
    assert of_keda == (expected and {"horizontalPodAutoscalerConfig": {"behavior": expected}})


def test_a_tolerance_too_fine_is_refused_by_its_field() -> None:
    with pytest.raises(SpecError, match=r"spec\.autoscaling\.behavior\.scaleUp\.tolerance: '0\.0001' is finer"):
        hpa(behavior={"scaleUp": {"tolerance": "0.0001"}})


def test_a_query_sums_what_the_autoscaler_divides() -> None:
    metric = autoscaling.Metric("QueueLength", 4)
    wanted = 'sum(last_over_time(octavo_requests_waiting{namespace="demo",serving_octavo_dev_service="chat"}[30s]))'
    assert query(parsed().key, metric) == wanted
