"""All objects that a service shall have, each built by its own pure builder. Pure.

Those of `kinds.OPTIONAL` are only wanted where the API server serves their kind; that it does not is a condition's business.
What belongs to the service and is not in this list is deleted.
"""

import dataclasses
from collections.abc import Mapping, Set
from typing import Any

from octavo_operator import kinds
from octavo_operator.desired.deployment import deployment
from octavo_operator.desired.service import cluster_service
from octavo_operator.installation import Installation
from octavo_operator.kinds import Kind, Ref
from octavo_operator.plan import Plan
from octavo_operator.service import Service

_ANYWHERE = Installation()


@dataclasses.dataclass(frozen=True)
class Child:
    """An object as it shall be."""

    kind: Kind
    body: Mapping[str, Any]

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, self.body["metadata"]["name"])


def children(
    service: Service, plan: Plan, served: Set[Kind], installation: Installation = _ANYWHERE
) -> list[Child]:
    """In the order in which they are applied; `served` holds the optional kinds that the API server knows."""
    wanted = [
        Child(kinds.DEPLOYMENT, deployment(service, plan)),
        Child(kinds.SERVICE, cluster_service(service)),
    ]
    return [child for child in wanted if child.kind in kinds.REQUIRED or child.kind in served]
