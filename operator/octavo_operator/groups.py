"""What was seen of the workload of a service: a Deployment's counts, or the same of a LeaderWorkerSet's groups. Pure.

Groups are counted from the pods: the LeaderWorkerSet's own status does not say which generation it is about, so it may still speak
of the spec before. A group is as ready as its leader, which is ready only while it has all its ranks.
"""

from collections.abc import Mapping, Sequence, Set
from typing import Any

from octavo_operator import kinds
from octavo_operator.desired import leaderworkerset
from octavo_operator.kinds import Kind
from octavo_operator.observed import DeploymentView, PodView, deployment_view
from octavo_operator.service import Service

Body = Mapping[str, Any]


def workload_view(live: Body | None, pods: Sequence[PodView]) -> DeploymentView | None:
    """`live` is what makes the service's `pods`; None where nothing does."""
    if live is None:
        return None
    return deployment_view(live) if live["kind"] == kinds.DEPLOYMENT.kind else groups_view(live, pods)


def groups_view(live: Body, pods: Sequence[PodView]) -> DeploymentView:
    """`live` is the LeaderWorkerSet as it was last applied; `pods` those of the service, of which leaders alone serve."""
    leaders = [pod for pod in pods if pod.serving and not pod.ending]
    revision = leaderworkerset.revision_of(live)
    return DeploymentView(
        settled=True,
        replicas=len(leaders),
        updated=sum(pod.revision == revision for pod in leaders),
        ready=sum(pod.ready for pod in leaders),
    )


def unit(service: Service) -> str:
    """What a replica of the service is."""
    return "pod" if service.parallelism.nodes == 1 else "group"


def lacking(service: Service, served: Set[Kind]) -> tuple[str, str] | None:
    """Reason and message where the API server does not know what makes the service's pods."""
    kind = service.workload_kind
    if kind in kinds.REQUIRED or kind in served:
        return None
    nodes = service.parallelism.nodes
    text = f"spec.parallelism.nodes is {nodes}, and the API server knows no {kind.kind}: install the LeaderWorkerSet controller"
    return f"{kind.kind}NotServed", text
