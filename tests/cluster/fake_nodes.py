"""Nodes that kwok plays: their pods are scheduled by the real scheduler, become ready at once and run nothing.

They carry the taint `kwok.x-k8s.io/node=fake:NoSchedule`, so only what tolerates it goes there: `TOLERATION`, with `SELECTOR` what
goes nowhere else. Their pods' addresses lead nowhere: nobody answers for their `/state`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.cluster.hosted import running
from tests.cluster.kubectl import Kubectl, condition, wait_for
from tests.cluster.onenode import addons, machine
from tests.cluster.operator_process import free_port

ANNOTATION = "kwok.x-k8s.io/node"
TAINT = {"key": ANNOTATION, "value": "fake", "effect": "NoSchedule"}
TOLERATION = {"key": ANNOTATION, "operator": "Equal", "value": "fake", "effect": "NoSchedule"}
SELECTOR = {"type": "kwok"}
_POD_SUBNET = "10.244.0.0/16"
_ENDING = Path("pod/fast/pod-complete.yaml")


@contextmanager
def fake_nodes(
    cluster: Kubectl,
    folder: Path,
    names: Sequence[str],
    *,
    capacity: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Mapping[str, str]] = (),
    inspection: str = "",
) -> Iterator[None]:
    """Ready nodes of these names, with 8 GPUs each unless `capacity` says otherwise; gone with their pods at the end.

    Their pods of Jobs end with `inspection` as termination message.

    Labels, taints and capacity can be changed on the live nodes by kubectl, as on any node.
    """
    port = free_port()
    command: list[str | Path] = [
        addons.ensure("kwok"),
        f"--kubeconfig={cluster.access.kubeconfig}",
        f"--manage-nodes-with-annotation-selector={ANNOTATION}=fake",
        f"--server-address=127.0.0.1:{port}",
        f"--cidr={_POD_SUBNET}",
        "--node-ip=10.245.255.254",
        *(f"--config={stage}" for stage in (*stages(), _ending(folder, inspection))),
    ]
    with _unreachable(_POD_SUBNET), running(command, folder / "kwok.log", f"http://127.0.0.1:{port}/healthz"):
        # Not applied: what is applied has no status.
        nodes = "\n---\n".join(json.dumps(node(name, capacity or {}, labels or {}, taints)) for name in names)
        cluster.run("create", "--filename=-", stdin=nodes)
        try:
            for name in names:
                wait_for(lambda name=name: is_ready(cluster, name), 30, f"the fake node {name}")  # type: ignore[misc]
            yield
        finally:
            for name in names:
                on_it = f"--field-selector=spec.nodeName={name}"
                cluster.run("delete", "pods", "--all-namespaces", on_it, "--grace-period=0", "--force", timeout_s=120.0)
                cluster.delete("node", name)


@contextmanager
def _unreachable(subnet: str) -> Iterator[None]:
    """Whoever asks pods that are not there is told at once, and nothing of it leaves the machine."""
    machine.run("ip", "route", "replace", "unreachable", subnet)
    try:
        yield
    finally:
        machine.run("ip", "route", "delete", "unreachable", subnet, check=False)


def stages() -> list[Path]:
    """How kwok plays nodes and pods: its own definitions, from the module cache. It keeps no leases, so nodes tell by status."""
    folder = addons.source(addons.KWOK, "sigs.k8s.io/kwok") / "kustomize" / "stage"
    kinds = ("node/fast", "node/heartbeat", "pod/fast")
    others = ("kustomization.yaml", _ENDING.name)
    return sorted(path for kind in kinds for path in (folder / kind).glob("*.yaml") if path.name not in others)


def _ending(folder: Path, message: str) -> Path:
    """kwok's definition of how pods of Jobs end, with `message`, which has no quotes but double ones."""
    text = (addons.source(addons.KWOK, "sigs.k8s.io/kwok") / "kustomize" / "stage" / _ENDING).read_text()
    before = "            reason: Completed\n"
    assert text.count(before) == 1, "kwok says elsewhere what a container ended of"
    path = folder / _ENDING.name
    path.write_text(text.replace(before, f"{before}            message: '{message}'\n"))
    return path


def node(
    name: str, capacity: Mapping[str, str], labels: Mapping[str, str], taints: Sequence[Mapping[str, str]]
) -> dict[str, Any]:
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": "8", **capacity}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {ANNOTATION: "fake", "node.alpha.kubernetes.io/ttl": "0"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **SELECTOR, **labels},
        },
        "spec": {"taints": [TAINT, *taints]},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def is_ready(cluster: Kubectl, name: str) -> bool:
    return condition(cluster.get("node", name), "Ready").get("status") == "True"
