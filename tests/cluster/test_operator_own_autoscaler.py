"""A HorizontalPodAutoscaler of a user's own, on an InferenceService: the cluster's controller works by its `scale` subresource."""

from collections.abc import Iterator

import pytest

from tests.cluster.kubectl import Kubectl, condition, wait_for
from tests.operator.live import KIND, applied, service, shared_namespace, wait_for_condition

NAME = "own"
AUTOSCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": NAME},
    "spec": {
        "scaleTargetRef": {"apiVersion": "serving.octavo.dev/v1alpha1", "kind": "InferenceService", "name": NAME},
        "minReplicas": 2,
        "maxReplicas": 3,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}},
            }
        ],
    },
}


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl, octavo: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


def test_a_users_own_autoscaler_reads_the_selector_and_sets_the_replicas(namespace: Kubectl) -> None:
    with applied(namespace, service(NAME, replicas=1, suspend=True)):
        wait_for_condition(namespace, NAME, "Ready", "True", says="Suspended")
        namespace.apply(AUTOSCALER)
        wait_for(lambda: (namespace.get(KIND, NAME) or {})["spec"]["replicas"] == 2, 40, "the least to be set")

        def tells() -> str:
            found = namespace.get("hpa", NAME)
            return str(condition(found, "ScalingActive").get("reason", ""))

        # With a selector that it could not use it would say InvalidSelector; the numbers of pods are another component's.
        assert wait_for(tells, 40, "the autoscaler to look at the pods") in (
            "FailedGetResourceMetric",
            "ValidMetricFound",
        )
        namespace.delete("hpa", NAME)
