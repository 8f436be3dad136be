"""The NetworkPolicy of a service: who reaches the API, who the metrics; the operator and the group's other ranks always.

Only what comes in is restricted. The kubelet's probes come from the pod's own node, which network plugins let through.
"""

from collections.abc import Mapping
from typing import Any

from octavo_operator import names
from octavo_operator.desired import labels
from octavo_operator.service import Service
from octavo_operator.spec.network import Network, Peer

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"


def policy(service: Service, operator_namespace: str | None) -> dict[str, Any] | None:
    """The policy that spec.network asks for, else None.

    Where the operator does not know its namespace, it is not in the cluster, and may come from anywhere.
    """
    if service.network is None:
        return None
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": labels.child_metadata(service, "network"),
        "spec": {
            "podSelector": {"matchLabels": labels.pod_selector(service.key)},
            "policyTypes": ["Ingress"],
            "ingress": _ingress(service, service.network, operator_namespace),
        },
    }


def _ingress(service: Service, network: Network, operator_namespace: str | None) -> list[dict[str, Any]]:
    api = _rule(network.api_from, names.API_PORT)
    operator = None if operator_namespace is None else (_operator(operator_namespace), *network.metrics_from)
    rules = [*api, *_rule(operator, names.HEALTH_PORT)]
    if service.parallelism.nodes > 1:
        # Besides the ports that the runtime names, gloo and NCCL choose their own.
        rules.append({"from": [{"podSelector": {"matchLabels": labels.pod_selector(service.key)}}]})
    return rules


def _rule(peers: tuple[Peer, ...] | None, port: int) -> list[dict[str, Any]]:
    """One rule, or none where nobody may come; a rule without `from` is for everybody."""
    if peers == ():
        return []
    ports = [{"protocol": "TCP", "port": port}]
    return [{"ports": ports} if peers is None else {"ports": ports, "from": [_peer(peer) for peer in peers]}]


def _operator(namespace: str) -> Peer:
    return Peer({NAMESPACE_NAME_LABEL: namespace}, {"app.kubernetes.io/name": names.OPERATOR_NAME})


def _peer(peer: Peer) -> dict[str, Any]:
    if peer.cidr is not None:
        return {"ipBlock": {"cidr": peer.cidr}}
    selectors = {"namespaceSelector": peer.namespace_labels, "podSelector": peer.pod_labels}
    chosen = {name: _selector(wanted) for name, wanted in selectors.items() if wanted is not None}
    # A peer that names nothing would be refused: it means the service's own namespace.
    return chosen or {"podSelector": {}}


def _selector(wanted: Mapping[str, str]) -> dict[str, Any]:
    return {"matchLabels": dict(wanted)} if wanted else {}
