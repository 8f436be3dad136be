"""`spec.network`: who may speak to a service's pods."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Peer:
    """Pods with `pod_labels` in namespaces with `namespace_labels` (None: the service's own), or the addresses of `cidr`."""

    namespace_labels: Mapping[str, str] | None = None
    pod_labels: Mapping[str, str] | None = None
    cidr: str | None = None


@dataclasses.dataclass(frozen=True)
class Network:
    """Peers of the API port and of the metrics port; None opens a port to everybody, an empty tuple to nobody."""

    api_from: tuple[Peer, ...] | None = None
    metrics_from: tuple[Peer, ...] = ()


def parse(spec: Mapping[str, Any] | None) -> Network | None:
    """Of the `network` block of a spec; None, without a block, asks for no policy."""
    if spec is None:
        return None
    return Network(
        api_from=_peers(spec["apiFrom"]) if "apiFrom" in spec else None,
        metrics_from=_peers(spec.get("metricsFrom", ())),
    )


def _peers(items: Any) -> tuple[Peer, ...]:
    return tuple(
        Peer(
            namespace_labels=item.get("namespaceLabels"),
            pod_labels=item.get("podLabels"),
            cidr=item.get("cidr"),
        )
        for item in items
    )
