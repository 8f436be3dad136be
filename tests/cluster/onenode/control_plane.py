"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler: their flags, and when they are ready."""

import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster.onenode import binaries, layout
from tests.cluster.onenode.certificates import FRONT_PROXY
from tests.cluster.onenode.errors import OneNodeError
from tests.cluster.onenode.machine import child_environ, run
from tests.cluster.onenode.processes import Processes

PKI = layout.CERTIFICATES
ETCD_URL = f"http://127.0.0.1:{layout.ETCD_PORT}"
ETCD_PEER_URL = f"http://127.0.0.1:{layout.ETCD_PEER_PORT}"
NAMES = ("kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd")


def start(processes: Processes) -> None:
    """Starts all four and waits until the API server is ready and the default service account exists."""
    for name, flags in (("etcd", _etcd()), ("kube-apiserver", _api_server())):
        processes.start(name, [binaries.path(name), *flags], child_environ())
    wait_until(is_ready, "kube-apiserver to be ready", processes, ("etcd", "kube-apiserver"))
    for name, flags in (("kube-controller-manager", _controller_manager()), ("kube-scheduler", _scheduler())):
        processes.start(name, [binaries.path(name), *flags], child_environ())
    wait_until(_has_default_account, "the default service account", processes, NAMES)


def restart_api_server(processes: Processes) -> None:
    """Ends and starts the API server alone, and waits until it is ready; what it keeps is etcd's."""
    processes.end("kube-apiserver")
    processes.start("kube-apiserver", [binaries.path("kube-apiserver"), *_api_server()], child_environ())
    wait_until(is_ready, "kube-apiserver to be ready again", processes, ("etcd", "kube-apiserver"))


def restart_controllers(processes: Processes, requests_per_s: int | None = None) -> None:
    """Starts controller-manager and scheduler anew, with that limit to their requests; None is their own, for small clusters."""
    limits = (
        [] if requests_per_s is None else [f"--kube-api-qps={requests_per_s}", f"--kube-api-burst={2 * requests_per_s}"]
    )
    processes.end("kube-controller-manager", "kube-scheduler")
    for name, flags in (("kube-controller-manager", _controller_manager()), ("kube-scheduler", _scheduler())):
        processes.start(name, [binaries.path(name), *flags, *limits], child_environ())


def kubectl(*words: str, check: bool = True, timeout_s: float = 30.0) -> str:
    """kubectl as the cluster's administrator."""
    return run(binaries.path("kubectl"), f"--kubeconfig={layout.KUBECONFIG}", *words, check=check, timeout_s=timeout_s)


def is_ready() -> bool:
    return kubectl("get", "--raw", "/readyz", "--request-timeout=5s", check=False).strip() == "ok"


def _has_default_account() -> bool:
    found = kubectl(
        "get", "serviceaccount", "default", "--namespace=default", "--ignore-not-found", "-oname", check=False
    )
    return bool(found.strip())


def wait_until(
    holds: Callable[[], bool], what: str, processes: Processes, needed: tuple[str, ...], limit_s: float = 90.0
) -> None:
    """Polls until `holds`; raises with the log's end as soon as one of the `needed` processes has died or time is over."""
    deadline_s = time.monotonic() + limit_s
    while not holds():
        dead = [name for name in needed if not processes.running(name)]
        if dead:
            raise OneNodeError(f"{dead[0]} died while waiting for {what}\n{processes.log_end(dead[0])}")
        if time.monotonic() > deadline_s:
            raise OneNodeError(f"waited {limit_s:.0f} s for {what}\n{processes.log_end(needed[-1])}")
        time.sleep(0.1)


def _etcd() -> list[str]:
    return [
        f"--data-dir={layout.STATE / 'etcd'}",
        f"--listen-client-urls={ETCD_URL}",
        f"--advertise-client-urls={ETCD_URL}",
        f"--listen-peer-urls={ETCD_PEER_URL}",
        f"--initial-advertise-peer-urls={ETCD_PEER_URL}",
        f"--initial-cluster=default={ETCD_PEER_URL}",
        # Its data lives no longer than the cluster.
        "--unsafe-no-fsync",
    ]


def _api_server() -> list[str]:
    return [
        f"--etcd-servers={ETCD_URL}",
        f"--bind-address={layout.NODE_IP}",
        f"--advertise-address={layout.NODE_IP}",
        f"--secure-port={layout.API_SERVER_PORT}",
        f"--service-cluster-ip-range={layout.SERVICE_SUBNET}",
        "--authorization-mode=Node,RBAC",
        # The second makes the garbage collector's permission checks those of a strict cluster.
        "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
        "--allow-privileged",
        # Webhooks and aggregated APIs reach pods directly.
        "--enable-aggregator-routing",
        f"--proxy-client-cert-file={PKI / 'front-proxy.crt'}",
        f"--proxy-client-key-file={PKI / 'front-proxy.key'}",
        f"--requestheader-client-ca-file={PKI / 'ca.crt'}",
        f"--requestheader-allowed-names={FRONT_PROXY.common_name}",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        # Else logs and exec look up the node's name.
        "--kubelet-preferred-address-types=InternalIP",
        f"--kubelet-certificate-authority={PKI / 'ca.crt'}",
        f"--kubelet-client-certificate={PKI / 'kubelet-client.crt'}",
        f"--kubelet-client-key={PKI / 'kubelet-client.key'}",
        f"--client-ca-file={PKI / 'ca.crt'}",
        f"--tls-cert-file={PKI / 'apiserver.crt'}",
        f"--tls-private-key-file={PKI / 'apiserver.key'}",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={PKI / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={PKI / 'service-accounts.key'}",
    ]


def _controller_manager() -> list[str]:
    return [
        *_client_flags("controller-manager"),
        "--bind-address=127.0.0.1",
        f"--secure-port={layout.CONTROLLER_MANAGER_PORT}",
        "--use-service-account-credentials",
        f"--root-ca-file={PKI / 'ca.crt'}",
        f"--service-account-private-key-file={PKI / 'service-accounts.key'}",
        f"--cluster-signing-cert-file={PKI / 'ca.crt'}",
        f"--cluster-signing-key-file={PKI / 'ca.key'}",
        # A third of the default, so that a test sees more than one decision of an autoscaler in a minute.
        "--horizontal-pod-autoscaler-sync-period=5s",
    ]


def _scheduler() -> list[str]:
    return [*_client_flags("scheduler"), "--bind-address=127.0.0.1", f"--secure-port={layout.SCHEDULER_PORT}"]


def _client_flags(identity: str) -> list[str]:
    config: Path = PKI / f"{identity}.kubeconfig"
    return [
        "--leader-elect=false",
        f"--kubeconfig={config}",
        f"--authentication-kubeconfig={config}",
        f"--authorization-kubeconfig={config}",
    ]
