"""The node's bridge and address, the pods' CNI configuration, and what of both is left to remove."""

import json
import shutil
from pathlib import Path

from tests.cluster.onenode import layout
from tests.cluster.onenode.errors import OneNodeError
from tests.cluster.onenode.machine import run, search_path

CNI_FOLDER = layout.STATE / "cni"
FORWARDING = Path("/proc/sys/net/ipv4/ip_forward")
FORWARDING_BEFORE = layout.RUN / "ip_forward.before"


def configure() -> None:
    # A bridge without ports, since a node's address may not be a loopback one; only this machine reaches it.
    run("ip", "link", "add", layout.BRIDGE, "type", "bridge")
    run("ip", "address", "add", f"{layout.NODE_IP}/32", "dev", layout.BRIDGE)
    run("ip", "link", "set", layout.BRIDGE, "up")
    # Lets this machine's own programs reach Services: the packet needs a route before kube-proxy's rules turn it to a pod.
    run("ip", "route", "add", layout.SERVICE_SUBNET, "dev", layout.BRIDGE)
    if not FORWARDING_BEFORE.exists():
        FORWARDING_BEFORE.write_text(FORWARDING.read_text())
    FORWARDING.write_text("1\n")
    CNI_FOLDER.mkdir(parents=True, exist_ok=True)
    (CNI_FOLDER / "10-octavo.conflist").write_text(json.dumps(cni_configuration(), indent=2))


def cni_configuration() -> dict[str, object]:
    """A point-to-point link for each pod: on a shared bridge an answer could pass the Service rules by, at layer 2."""
    addresses = {
        "type": "host-local",
        "dataDir": str(layout.RUN / "addresses"),
        "ranges": [[{"subnet": layout.POD_SUBNET}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    return {
        "cniVersion": "1.0.0",
        "name": "octavo-onenode",
        "plugins": [{"type": "ptp", "ipam": addresses}],
    }


def remove() -> None:
    """Removes bridge, routes and kube-proxy's rules; nothing of it need be there."""
    if (Path("/sys/class/net") / layout.BRIDGE).exists():
        _check_ours()
        run("ip", "link", "delete", layout.BRIDGE)
    if shutil.which("nft", path=search_path()) is not None:
        for family in ("ip", "ip6"):
            run("nft", "delete", "table", family, "kube-proxy", check=False)
    if FORWARDING_BEFORE.exists():
        FORWARDING.write_text(FORWARDING_BEFORE.read_text())


def _check_ours() -> None:
    [link] = json.loads(run("ip", "-json", "-4", "address", "show", "dev", layout.BRIDGE)) or [{}]
    addresses = [entry["local"] for entry in link.get("addr_info", [])]
    # Without an address it is what a start left that ended between the two commands.
    if addresses not in ([], [layout.NODE_IP]):
        raise OneNodeError(
            f"the network interface {layout.BRIDGE} ({', '.join(addresses)}) is not the one-node cluster's: rename or remove it"
        )
