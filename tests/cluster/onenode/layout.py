"""Where the one-node cluster keeps its files, and the addresses and ports that it takes.

The paths are the machine's, not the clone's: there is at most one such cluster on a machine, and a second clone finds it.
"""

import os
from collections.abc import Mapping
from pathlib import Path

NODE_NAME = "n1"
CONTEXT = "octavo-onenode"
GPU_RESOURCE = "nvidia.com/gpu"
GPU_COUNT = 8

BRIDGE = "octn"
NODE_IP = "10.245.0.1"
NODE_SUBNET = "10.245.0.0/24"
POD_SUBNET = "10.246.0.0/24"
SERVICE_SUBNET = "10.247.0.0/24"
FIRST_SERVICE_IP = "10.247.0.1"
DNS_SERVICE_IP = "10.247.0.10"
CLUSTER_DOMAIN = "cluster.local"

API_SERVER_PORT = 6443
KUBELET_PORT = 10250
ETCD_PORT = 22379
ETCD_PEER_PORT = 22380
CONTROLLER_MANAGER_PORT = 22257
SCHEDULER_PORT = 22259
KUBELET_HEALTH_PORT = 22248
PROXY_METRICS_PORT = 22249
# On the node's address; pods ask port 53 of the Service in front of it.
DNS_PORT = 22253
DNS_READY_PORT = 22254
# Of tests: the operator has to know it before a test starts Prometheus there.
PROMETHEUS_URL = f"http://{NODE_IP}:22270"
# Not 5000: Debian's docker-registry package may run its own there.
REGISTRY = "127.0.0.1:5001"

# Gone after a reboot, as are the processes that it speaks of.
RUN = Path("/run/octavo-onenode")
# Of one life of the cluster: etcd, certificates, the kubelet's folder.
STATE = Path("/var/lib/octavo-onenode/state")
# Outlives the cluster: pulled images are gigabytes.
CONTAINERD_ROOT = Path("/var/lib/octavo-onenode/containerd")
LOCK = Path("/run/octavo-onenode.lock")

CERTIFICATES = STATE / "certificates"
# Where tests put the folders that stand for volumes of a network, and those that pods may mount by their path.
VOLUMES = STATE / "volumes"
KUBECONFIG = CERTIFICATES / "admin.kubeconfig"
# Kept after the end, until the next start.
LOGS = Path("/var/lib/octavo-onenode/logs")
KUBELET_ROOT = STATE / "kubelet"
RECORDS = RUN / "processes"
CONTAINERD_SOCKET = RUN / "containerd" / "containerd.sock"
CONTAINERD_STATE = RUN / "containerd" / "state"
RUNC_ROOT = RUN / "runc"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """The folder for what is slow to make again: built programs, images (`OCTAVO_CACHE`, default `~/.cache/octavo`)."""
    named = environ.get("OCTAVO_CACHE")
    return Path(named).resolve() if named else Path.home() / ".cache" / "octavo"
