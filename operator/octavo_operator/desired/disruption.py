"""The PodDisruptionBudget of a service, and how its pods spread over nodes and zones.

No budget where one replica is all there is: it could only block the drain of its node. Pods that are not ready may always be
evicted, so that a service that cannot start keeps no node from being drained.
"""

from typing import Any

from octavo_operator.desired import labels
from octavo_operator.service import Service


def budget(service: Service) -> dict[str, Any] | None:
    """The budget where there are always at least two replicas, else None."""
    if service.least_replicas < 2:
        return None
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": labels.child_metadata(service, "disruption"),
        "spec": {
            "maxUnavailable": _pods(service),
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
            "selector": {"matchLabels": labels.pod_selector(service.key)},
        },
    }


def _pods(service: Service) -> int:
    """The budget in pods. A pod that goes takes its whole group with it, so of the last group only the first must still be let."""
    return (service.disruption.max_unavailable - 1) * service.parallelism.nodes + 1


def spread_constraints(service: Service) -> list[dict[str, Any]]:
    """Of the pods that answer requests. Only pods of one revision are counted together: a rollout would be in its own way."""
    revision = (
        "pod-template-hash" if service.parallelism.nodes == 1 else "leaderworkerset.sigs.k8s.io/template-revision-hash"
    )
    return [
        {
            "maxSkew": spread.max_skew,
            "topologyKey": spread.topology_key,
            "whenUnsatisfiable": spread.when_unsatisfiable,
            "labelSelector": {"matchLabels": labels.serving_selector(service.key)},
            "matchLabelKeys": [revision],
        }
        for spread in service.disruption.spread
    ]
