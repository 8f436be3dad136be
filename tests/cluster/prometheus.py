"""Debian's Prometheus on this machine, scraping a namespace's pods as docs/autoscaling.md says.

Debian builds it without the discovery of Kubernetes pods, so that part alone is done here: the pods' meta labels, which the
documented rules keep and relabel, come in a file.
"""

import json
import re
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import hosted
from tests.cluster.installation import REPOSITORY
from tests.cluster.kubectl import Kubectl, Object
from tests.cluster.onenode import layout

GUIDE = REPOSITORY / "docs" / "autoscaling.md"
URL = layout.PROMETHEUS_URL


def documented_configuration() -> dict[str, Any]:
    """The block of the guide that scrapes without the Prometheus Operator."""
    blocks = re.findall(r"```yaml\n(scrape_configs:.*?)```", GUIDE.read_text(), re.DOTALL)
    assert len(blocks) == 1, f"{GUIDE} has one scrape configuration"
    configuration: dict[str, Any] = yaml.safe_load(blocks[0])
    return configuration


@contextmanager
def running(kubectl: Kubectl, folder: Path) -> Iterator[None]:
    """Prometheus answers at `URL` while the block runs, and scrapes the pods of kubectl's namespace each 3 s."""
    folder.mkdir(exist_ok=True)
    targets, file = folder / "pods.json", folder / "prometheus.yaml"
    configuration = documented_configuration()
    for job in configuration["scrape_configs"]:
        job["scrape_interval"] = "3s"
        [discovery] = job.pop("kubernetes_sd_configs")
        [selector] = discovery["selectors"]
        job["file_sd_configs"] = [{"files": [str(targets)], "refresh_interval": "1s"}]
    file.write_text(yaml.safe_dump(configuration))
    command = [
        "prometheus",
        f"--config.file={file}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address={URL.removeprefix('http://')}",
    ]
    with (
        _discovered(kubectl, selector["label"], targets),
        hosted.running(command, folder / "prometheus.log", f"{URL}/-/ready"),
    ):
        yield


@contextmanager
def _discovered(kubectl: Kubectl, selector: str, file: Path) -> Iterator[None]:
    """`file` holds what Kubernetes discovery would find, two seconds old at most."""
    stop = threading.Event()

    def follow() -> None:
        while not stop.is_set():
            found = [target for pod in kubectl.list("pods", selector) for target in _targets(pod)]
            fresh = file.with_suffix(".new")
            fresh.write_text(json.dumps(found))
            fresh.rename(file)
            stop.wait(2.0)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(30.0)


def _targets(pod: Object) -> list[dict[str, Any]]:
    """One for each port of each container of a pod that has an address, with its meta labels."""
    labels = {
        f"__meta_kubernetes_pod_label_{re.sub(r'[^a-zA-Z0-9_]', '_', key)}": value
        for key, value in pod["metadata"]["labels"].items()
    }
    ip = pod["status"].get("podIP")
    ports = [port for container in pod["spec"]["containers"] for port in container.get("ports", ())]
    return [
        {
            "targets": [f"{ip}:{port['containerPort']}"],
            "labels": {
                "__meta_kubernetes_namespace": pod["metadata"]["namespace"],
                "__meta_kubernetes_pod_name": pod["metadata"]["name"],
                "__meta_kubernetes_pod_container_port_name": port.get("name", ""),
                **labels,
            },
        }
        for port in ports
        if ip
    ]


def query(expression: str) -> list[dict[str, Any]]:
    """What Prometheus answers now: `metric` and `value` of each series."""
    text = hosted.read(f"{URL}/api/v1/query?{urllib.parse.urlencode({'query': expression})}")
    found: list[dict[str, Any]] = json.loads(text)["data"]["result"]
    return found
