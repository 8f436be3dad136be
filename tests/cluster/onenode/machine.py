"""What the cluster needs of the machine: Linux, root, Debian packages, and addresses and ports that nothing else uses."""

import ipaddress
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from tests.cluster.onenode import layout
from tests.cluster.onenode.errors import CannotRunHereError, OneNodeError
from tests.cluster.onenode.processes import start_ticks

CNI_PLUGINS = Path("/usr/lib/cni")
#: Package → a file or command that shows it is there.
PACKAGES = {
    "runc": "runc",
    "containernetworking-plugins": str(CNI_PLUGINS / "ptp"),
    "nftables": "nft",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ethtool": "ethtool",
    "socat": "socat",
    "iproute2": "ip",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "docker-registry": "docker-registry",
    "prometheus": "prometheus",
    "ca-certificates": "/etc/ssl/certs/ca-certificates.crt",
}
# Debian keeps most of these out of an ordinary shell's PATH.
ADMIN_PATH = "/usr/local/sbin:/usr/sbin:/sbin"
# Wider routes are those of a VPN or a whole company: ours are more specific and take three small networks of them.
WIDE_ROUTE_PREFIX = 12
KUBERNETES_NODE_PROGRAMS = {"kubelet", "k3s", "k3s-server", "k0s", "rke2", "kubelite"}


def search_path() -> str:
    return f"{os.environ.get('PATH', '/usr/local/bin:/usr/bin:/bin')}:{ADMIN_PATH}"


def check_supported(platform: str = sys.platform, user: int = os.geteuid()) -> None:
    """Raises `CannotRunHereError` where no cluster can be started whatever is installed."""
    if platform != "linux":
        raise CannotRunHereError(f"it needs Linux, this is {platform}")
    if user != 0:
        raise CannotRunHereError("it needs root (namespaces, mounts, network)")


def missing_packages() -> list[str]:
    return [package for package, shown_by in PACKAGES.items() if not _is_there(shown_by)]


def _is_there(shown_by: str) -> bool:
    if shown_by.startswith("/"):
        return Path(shown_by).exists()
    return shutil.which(shown_by, path=search_path()) is not None


def install_packages(packages: list[str]) -> None:
    """Installs Debian packages with apt-get, or raises `CannotRunHereError` naming them."""
    if shutil.which("apt-get") is None:
        raise CannotRunHereError(f"not installed, and no apt-get to install them: {', '.join(packages)}")
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    for command in (["apt-get", "update"], install):
        done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise CannotRunHereError(f"`{' '.join(command)}` failed ({last})")
    if left := missing_packages():
        raise CannotRunHereError(f"apt-get installed them, but they are not found: {', '.join(left)}")


def check_nothing_foreign() -> None:
    """Raises where another Kubernetes node or network of the machine would collide; call it when nothing of ours runs."""
    for process in Path("/proc").glob("[0-9]*/comm"):
        try:
            name = process.read_text().strip()
        except (FileNotFoundError, ProcessLookupError):
            continue
        # A session that ends the cluster it started may not have waited yet for what was its child: a zombie runs nothing.
        if name in KUBERNETES_NODE_PROGRAMS and start_ticks(int(process.parent.name)) is not None:
            raise OneNodeError(
                f"this machine is a Kubernetes node already ({name}, pid {process.parent.name}): "
                "use that cluster with OCTAVO_KUBECONFIG and OCTAVO_CONTEXT (and REGISTRY)"
            )
    _check_routes()
    _check_ports()


def _check_routes() -> None:
    ours = [ipaddress.ip_network(net) for net in (layout.NODE_SUBNET, layout.POD_SUBNET, layout.SERVICE_SUBNET)]
    for route in json.loads(run("ip", "-json", "-4", "route", "show", "table", "all")):
        if route["dst"] == "default" or route.get("dev") in ("lo", layout.BRIDGE):
            continue
        destination = ipaddress.ip_network(route["dst"], strict=False)
        if destination.prefixlen < WIDE_ROUTE_PREFIX:
            continue
        for network in ours:
            if destination.overlaps(network):
                raise OneNodeError(
                    f"the network {network} that the cluster uses is taken: {destination} is reached through {route.get('dev')}; "
                    "free it, or name a cluster with OCTAVO_KUBECONFIG and OCTAVO_CONTEXT (and REGISTRY)"
                )


def _check_ports() -> None:
    loopback = (
        layout.ETCD_PORT,
        layout.ETCD_PEER_PORT,
        layout.CONTROLLER_MANAGER_PORT,
        layout.SCHEDULER_PORT,
        layout.KUBELET_HEALTH_PORT,
        layout.PROXY_METRICS_PORT,
        layout.DNS_READY_PORT,
    )
    for port in loopback:
        check_port_free("127.0.0.1", port)


def check_port_free(address: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            raise OneNodeError(
                f"{address}:{port} is taken by something that is not ours ({error.strerror}); `ss -ltnp` names it: end it first"
            ) from error


def run(*command: str | Path, stdin: str | None = None, check: bool = True, timeout_s: float = 60.0) -> str:
    """Runs a program of the machine and returns its output; a failure is an error with what it said."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, input=stdin, capture_output=True, text=True, timeout=timeout_s, check=False, env=child_environ()
        )
    except FileNotFoundError as error:
        raise OneNodeError(
            f"{words[0]} is not installed: `python -m tests.cluster.onenode up` installs what is missing"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise OneNodeError(f"`{' '.join(words)}` did not end within {timeout_s:.0f} s") from error
    if check and done.returncode != 0:
        raise OneNodeError(
            f"`{' '.join(words)}` failed ({done.returncode}): {done.stderr.strip() or done.stdout.strip()}"
        )
    return done.stdout


def child_environ() -> dict[str, str]:
    """The environment for the cluster's programs: admin tools on PATH, the cluster's addresses past any proxy."""
    own = ["127.0.0.1", "localhost", ".svc", layout.NODE_SUBNET, layout.POD_SUBNET, layout.SERVICE_SUBNET]
    before = os.environ.get("NO_PROXY") or os.environ.get("no_proxy")
    direct = ",".join([*([before] if before else []), *own])
    # A kubeconfig of the user's shell may point at production: nothing here may fall back to it.
    inherited = {name: value for name, value in os.environ.items() if name not in ("KUBECONFIG", "NOTIFY_SOCKET")}
    return {**inherited, "PATH": search_path(), "NO_PROXY": direct, "no_proxy": direct}
