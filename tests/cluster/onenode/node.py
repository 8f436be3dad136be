"""kubelet and kube-proxy, the node's readiness and its declared GPUs."""

import json

import yaml

from tests.cluster.onenode import binaries, layout
from tests.cluster.onenode.control_plane import PKI, kubectl, wait_until
from tests.cluster.onenode.machine import child_environ
from tests.cluster.onenode.processes import Processes

NAMES = ("kubelet", "kube-proxy")


def start(processes: Processes) -> None:
    """Starts both and waits until the node is Ready."""
    kubelet_config = layout.STATE / "kubelet.yaml"
    kubelet_config.write_text(yaml.safe_dump(kubelet_configuration()))
    kubelet = [
        f"--config={kubelet_config}",
        f"--kubeconfig={PKI / 'kubelet.kubeconfig'}",
        f"--root-dir={layout.KUBELET_ROOT}",
        f"--node-ip={layout.NODE_IP}",
        f"--hostname-override={layout.NODE_NAME}",
    ]
    proxy_config = layout.STATE / "kube-proxy.yaml"
    proxy_config.write_text(yaml.safe_dump(proxy_configuration()))
    for name, flags in (("kubelet", kubelet), ("kube-proxy", [f"--config={proxy_config}"])):
        processes.start(name, [binaries.path(name), *flags], child_environ())
    wait_until(is_ready, f"node {layout.NODE_NAME} to be Ready", processes, ("containerd", *NAMES))


def declare_gpus() -> None:
    """The one simulated thing: the kubelet keeps a capacity that it does not know, until it starts again."""
    patch = {"status": {"capacity": {layout.GPU_RESOURCE: str(layout.GPU_COUNT)}}}
    kubectl("patch", "node", layout.NODE_NAME, "--subresource=status", "--type=merge", f"--patch={json.dumps(patch)}")


def is_ready() -> bool:
    path = '{.status.conditions[?(@.type=="Ready")].status}'
    return kubectl("get", "node", layout.NODE_NAME, f"-ojsonpath={path}", check=False).strip() == "True"


def allocatable_gpus() -> int:
    node = json.loads(kubectl("get", "node", layout.NODE_NAME, "-ojson"))
    return int(node["status"]["allocatable"].get(layout.GPU_RESOURCE, "0"))


def kubelet_configuration() -> dict[str, object]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": layout.NODE_IP,
        "port": layout.KUBELET_PORT,
        "healthzPort": layout.KUBELET_HEALTH_PORT,
        "containerRuntimeEndpoint": f"unix://{layout.CONTAINERD_SOCKET}",
        "podLogsDir": str(layout.LOGS / "pods"),
        "tlsCertFile": str(PKI / "kubelet.crt"),
        "tlsPrivateKeyFile": str(PKI / "kubelet.key"),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(PKI / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "clusterDNS": [layout.DNS_SERVICE_IP],
        "clusterDomain": layout.CLUSTER_DOMAIN,
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "oomScoreAdj": 0,
        # kube-proxy's nftables rules are all that this node needs; these chains would outlive it.
        "makeIPTablesUtilChains": False,
        "serializeImagePulls": False,
        # A developer's nearly full disk evicts no pods and loses no image of gigabytes.
        "imageGCHighThresholdPercent": 100,
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
    }


def proxy_configuration() -> dict[str, object]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clusterCIDR": layout.POD_SUBNET,
        "hostnameOverride": layout.NODE_NAME,
        "clientConnection": {"kubeconfig": str(PKI / "proxy.kubeconfig")},
        "healthzBindAddress": f"{layout.NODE_IP}:10256",
        "metricsBindAddress": f"127.0.0.1:{layout.PROXY_METRICS_PORT}",
        "oomScoreAdj": 0,
        # The machine's own connection tracking limits stay as they are.
        "conntrack": {"maxPerCore": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
