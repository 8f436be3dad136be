"""CoreDNS for the pods: names of Services, and of pods behind headless ones, as `<service>.<namespace>.svc`.

It runs on the machine, on the node's address, behind the Service that the kubelet writes into every pod's resolv.conf. Other names
are asked of the machine's own servers, where it has any.
"""

import json
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from tests.cluster.onenode import binaries, layout
from tests.cluster.onenode.control_plane import PKI, wait_until
from tests.cluster.onenode.machine import child_environ, run
from tests.cluster.onenode.processes import Processes

NAMES = ("coredns",)
USER = "octavo-dns"
RESOLV_CONF = Path("/etc/resolv.conf")
_SERVICE = {"name": "kube-dns", "namespace": "kube-system"}
_ROLE = {"name": "octavo-onenode:dns"}


def start(processes: Processes) -> None:
    """Starts CoreDNS behind its Service and waits until it knows the cluster's Services."""
    objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": [*_rights(), *_service()]})
    kubectl_words = (binaries.path("kubectl"), f"--kubeconfig={layout.KUBECONFIG}")
    run(*kubectl_words, "apply", "--server-side", "--filename=-", stdin=objects)
    corefile = layout.STATE / "Corefile"
    corefile.write_text(configuration(RESOLV_CONF.read_text() if RESOLV_CONF.exists() else ""))
    processes.start("coredns", [binaries.path("coredns"), f"-conf={corefile}"], child_environ())
    wait_until(_is_ready, "CoreDNS to know the cluster's Services", processes, NAMES)


def configuration(resolv_conf: str) -> str:
    """The Corefile; `resolv_conf` is what the machine's own file says."""
    has_servers = any(line.split()[:1] == ["nameserver"] for line in resolv_conf.splitlines())
    return f"""\
.:{layout.DNS_PORT} {{
    bind {layout.NODE_IP}
    errors
    ready 127.0.0.1:{layout.DNS_READY_PORT}
    kubernetes {layout.CLUSTER_DOMAIN} in-addr.arpa {{
        kubeconfig {PKI / "dns.kubeconfig"} {layout.CONTEXT}
        fallthrough in-addr.arpa
        ttl 1
    }}
    {f"forward . {RESOLV_CONF}" if has_servers else ""}
}}
"""


def _is_ready() -> bool:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://127.0.0.1:{layout.DNS_READY_PORT}/ready", timeout=2.0) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _rights() -> list[dict[str, Any]]:
    watch = ["list", "watch"]
    rules = [
        {"apiGroups": [""], "resources": ["namespaces", "services"], "verbs": watch},
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": watch},
    ]
    api, group = "rbac.authorization.k8s.io/v1", "rbac.authorization.k8s.io"
    return [
        {"apiVersion": api, "kind": "ClusterRole", "metadata": _ROLE, "rules": rules},
        {
            "apiVersion": api,
            "kind": "ClusterRoleBinding",
            "metadata": _ROLE,
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", **_ROLE},
            "subjects": [{"apiGroup": group, "kind": "User", "name": USER}],
        },
    ]


def _service() -> list[dict[str, Any]]:
    """A Service without selector, and its one endpoint, which is no pod."""
    ports = [{"name": f"dns-{protocol.lower()}", "protocol": protocol} for protocol in ("UDP", "TCP")]
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": _SERVICE,
            "spec": {
                "clusterIP": layout.DNS_SERVICE_IP,
                "ports": [{**port, "port": 53, "targetPort": layout.DNS_PORT} for port in ports],
            },
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**_SERVICE, "labels": {"kubernetes.io/service-name": _SERVICE["name"]}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [layout.NODE_IP], "conditions": {"ready": True}}],
            "ports": [{**port, "port": layout.DNS_PORT} for port in ports],
        },
    ]
