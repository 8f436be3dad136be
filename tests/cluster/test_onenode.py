"""The one-node cluster is a real one: scheduler, kubelet, containers, logs and exec; and `up` leaves a healthy one alone."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.access import Access
from tests.cluster.conversation import port_forward
from tests.cluster.installation import REPOSITORY, Images
from tests.cluster.kubectl import CommandError, Kubectl, wait_for
from tests.cluster.onenode import layout, lifecycle
from tests.cluster.onenode.containers import PAUSE_IMAGE
from tests.cluster.onenode.processes import Processes

pytestmark = pytest.mark.usefixtures("own_cluster")

SERVE = """
import http.server
server = http.server.HTTPServer(("", 8000), http.server.SimpleHTTPRequestHandler)
print("serving", flush=True)
server.serve_forever()
"""


def pod(name: str, image: str, **container: Any) -> dict[str, Any]:
    spec = {
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "main", "image": image, "imagePullPolicy": "IfNotPresent", **container}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}}, "spec": spec}


def phase(kubectl: Kubectl, name: str) -> str:
    found = kubectl.get("pod", name) or {}
    return str(found.get("status", {}).get("phase", ""))


def wait_until_running(kubectl: Kubectl, name: str, timeout_s: float = 60.0) -> None:
    wait_for(lambda: phase(kubectl, name) == "Running", timeout_s, f"pod {name} to run")


def test_a_second_up_changes_nothing(access: Access) -> None:
    before = lifecycle.PROCESSES.all()
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.onenode", "up"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "up already" in done.stdout
    assert lifecycle.PROCESSES.all() == before


def test_a_pod_that_asks_for_gpus_is_scheduled_as_far_as_they_go(namespace: Kubectl) -> None:
    limits = {"resources": {"limits": {layout.GPU_RESOURCE: "5"}}}
    namespace.apply(pod("first", PAUSE_IMAGE, **limits))
    wait_until_running(namespace, "first")
    namespace.apply(pod("second", PAUSE_IMAGE, **limits))

    def refusal() -> str | None:
        conditions = (namespace.get("pod", "second") or {}).get("status", {}).get("conditions", [])
        return next((entry["message"] for entry in conditions if entry["status"] == "False"), None)

    assert f"Insufficient {layout.GPU_RESOURCE}" in wait_for(refusal, 30.0, "the scheduler to refuse the second pod")


def test_logs_exec_and_a_service_reach_a_real_container(namespace: Kubectl, images: Images) -> None:
    namespace.apply(
        pod("web", images.operator, command=["python3", "-c", SERVE], workingDir="/etc"),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web"},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": 8000}]},
        },
    )
    wait_until_running(namespace, "web", timeout_s=120.0)
    wait_for(lambda: "serving" in namespace.run("logs", "web"), 30.0, "the container to say that it serves")
    assert namespace.run("exec", "web", "--", "python3", "-c", "print(6 * 7)").strip() == "42"
    with port_forward(namespace, "service/web", 80) as url:
        assert body(f"{url}/hostname")
    address = (namespace.get("service", "web") or {})["spec"]["clusterIP"]
    assert body(f"http://{address}/hostname"), "a cluster address is reachable from this machine"


def test_pods_find_services_and_the_pods_behind_a_headless_one_by_name(namespace: Kubectl, images: Images) -> None:
    headless = {"clusterIP": "None", "selector": {"app": "named"}, "publishNotReadyAddresses": True}
    named = pod("named", images.operator, command=["sleep", "600"])
    named["spec"] |= {"hostname": "first", "subdomain": "group"}
    namespace.apply({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "group"}, "spec": headless}, named)
    wait_until_running(namespace, "named", timeout_s=120.0)

    def address(name: str) -> str:
        lookup = f"import socket; print(socket.gethostbyname({name!r}))"
        return namespace.run("exec", "named", "--", "python3", "-c", lookup).strip()

    own = (namespace.get("pod", "named") or {})["status"]["podIP"]
    assert address("kubernetes.default.svc") == layout.FIRST_SERVICE_IP
    assert wait_for(lambda: resolved(address, f"first.group.{namespace.namespace}"), 10.0, "the pod's name") == own


def resolved(address: Callable[[str], str], name: str) -> str | None:
    try:
        return address(name)
    except CommandError:
        return None


def body(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10.0) as response:
        return bytes(response.read())


def test_a_failed_command_says_what_kubectl_said(cluster: Kubectl) -> None:
    with pytest.raises(CommandError, match='pods "absent" not found'):
        cluster.within("default").run("get", "pod", "absent")


def test_a_process_that_is_missing_makes_the_cluster_unhealthy(access: Access, tmp_path: Path) -> None:
    assert lifecycle.is_healthy()
    for file in layout.RECORDS.glob("*.json"):
        if json.loads(file.read_text())["name"] != "kube-scheduler":
            (tmp_path / file.name).write_text(file.read_text())
    assert not lifecycle.is_healthy(Processes(tmp_path, layout.LOGS))
