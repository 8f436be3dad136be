"""What was seen of the workload of a service: a Deployment's counts, or the same of a LeaderWorkerSet's groups. Pure.

Groups are counted from the pods: the LeaderWorkerSet's own status does not say which generation it is about, so it may still speak of the
spec before. A group is as ready as its leader, which is ready only while it has all its ranks.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo_operator import kinds
from octavo_operator.desired import leaderworkerset
from octavo_operator.kinds import Ref
from octavo_operator.observed import DeploymentView, PodView, deployment_view
from octavo_operator.service import Key

Body = Mapping[str, Any]


def workload_view(key: Key, children: Mapping[Ref, Body], pods: Sequence[PodView]) -> DeploymentView | None:
    """Of the service's own `children`; None where none of them makes pods."""
    if (live := children.get(Ref(kinds.DEPLOYMENT, key.name))) is not None:
        return deployment_view(live)
    if (live := children.get(Ref(kinds.LEADER_WORKER_SET, key.name))) is not None:
        return groups_view(live, pods)
    return None


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
