"""The LeaderWorkerSet of a service whose replicas span several nodes: each replica is a group of one pod a node.

The group's first pod leads: it has the API, the drain, readiness, and the label by which Service and InferencePool find it. The
others run ranks and answer `/live` only. Node number and leader's address come to the runtime in the environment that the
LeaderWorkerSet's webhook sets. Each group has a headless Service of its own, called as its leader: one shared by all groups would
be called as the LeaderWorkerSet, which is the name of ours.
"""

import copy
import hashlib
import json
from collections.abc import Mapping
from typing import Any

from octavo_operator import kinds, names
from octavo_operator.desired import labels, pod
from octavo_operator.plan import Plan
from octavo_operator.service import Service


def leader_worker_set(service: Service, plan: Plan) -> dict[str, Any]:
    return {
        "apiVersion": kinds.LEADER_WORKER_SET.api_version,
        "kind": kinds.LEADER_WORKER_SET.kind,
        "metadata": labels.workload_metadata(service),
        "spec": {
            "replicas": plan.replicas,
            "startupPolicy": "LeaderCreated",
            "networkConfig": {"subdomainPolicy": "UniquePerReplica"},
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration": _rolling(plan)},
            "leaderWorkerTemplate": {
                "size": service.parallelism.nodes,
                "restartPolicy": "RecreateGroupOnPodRestart",
                **templates(pod.template(service)),
            },
        },
    }


def templates(leader: dict[str, Any]) -> dict[str, Any]:
    """`leader` and the workers' template that follows from it, both marked with the revision that they are of.

    The LeaderWorkerSet's status does not tell which generation it is about; the pods' marks do.
    """
    both = {"leaderTemplate": leader, "workerTemplate": worker_template(leader)}
    revision = hashlib.sha256(json.dumps(both, sort_keys=True).encode()).hexdigest()[:16]
    return {role: _marked(template, revision) for role, template in both.items()}


def worker_template(leader: dict[str, Any]) -> dict[str, Any]:
    """What is left of the leader's pod where there is no API: nothing to be ready for, nothing to drain."""
    worker = copy.deepcopy(leader)
    del worker["metadata"]["labels"][names.SERVING_LABEL]
    worker["metadata"]["labels"]["app.kubernetes.io/component"] = "worker"
    worker["spec"].pop("topologySpreadConstraints", None)
    runtime = next(item for item in worker["spec"]["containers"] if item["name"] == names.RUNTIME_CONTAINER)
    for field in ("readinessProbe", "lifecycle"):
        runtime.pop(field, None)
    runtime["ports"] = [port for port in runtime["ports"] if port["name"] == "health"]
    return worker


def revision_of(workload: Mapping[str, Any]) -> str:
    """The revision that pods of `workload` (desired or live) are marked with."""
    leader = workload["spec"]["leaderWorkerTemplate"].get("leaderTemplate", {})
    return str(leader.get("metadata", {}).get("annotations", {}).get(names.REVISION_ANNOTATION, ""))


def _marked(template: dict[str, Any], revision: str) -> dict[str, Any]:
    metadata = template["metadata"]
    annotations = {**metadata.get("annotations", {}), names.REVISION_ANNOTATION: revision}
    return {**template, "metadata": {**metadata, "annotations": annotations}}


def _rolling(plan: Plan) -> dict[str, Any]:
    """Never a group more than wanted: nobody has a second set of nodes to spare."""
    return {"maxSurge": 0, "maxUnavailable": "100%" if plan.strategy == "Recreate" else plan.at_once, "partition": 0}
