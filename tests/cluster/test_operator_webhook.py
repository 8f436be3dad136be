"""The API server asks the operator's webhook, by the chart's own configuration, and shows what it says. Services without pods."""

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from octavo_operator.webhook import PATH
from tests.chart.rendering import rendered
from tests.cluster.kubectl import Kubectl, wait_for
from tests.cluster.lonely import lonely_namespace, without_operator
from tests.cluster.onenode import certificates, layout
from tests.cluster.operator_process import Operator, free_port, operator
from tests.operator.live import KIND, service, wait_for_condition

CONFIGURATION = "octavo-warnings-test"
pytestmark = pytest.mark.usefixtures("own_cluster")


@pytest.fixture(scope="module")
def warned(
    cluster: Kubectl, octavo: Kubectl, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Kubectl, Operator]]:
    """A namespace whose operator, a process of this machine, is the webhook of the chart's configuration."""
    folder, port = tmp_path_factory.mktemp("webhook"), free_port()
    authority = certificates.write_serving(folder, layout.NODE_IP)
    with without_operator(octavo), lonely_namespace(cluster) as kubectl:
        words = [f"--namespace={kubectl.namespace}", f"--webhook-certificates={folder}", f"--webhook-port={port}"]
        words += ["--runtime-image=registry.invalid/none:1", "--no-inspection"]
        with operator(cluster.access, folder / "log", *words) as process:
            cluster.apply(configuration(kubectl, f"https://{layout.NODE_IP}:{port}{PATH}", authority))
            try:
                yield kubectl, process
            finally:
                cluster.delete("validatingwebhookconfiguration", CONFIGURATION)


def configuration(kubectl: Kubectl, url: str, authority: bytes) -> dict[str, Any]:
    """The chart's, but that the webhook is found by its address, and asked only of the test's namespace."""
    secret = {"enabled": True, "existingSecret": "x", "caBundle": base64.b64encode(authority).decode()}
    objects = rendered(webhook=secret, watch={"namespaces": [kubectl.namespace]})
    found = objects["ValidatingWebhookConfiguration", "octavo-system-octavo-operator"]
    found["metadata"] = {"name": CONFIGURATION}
    del found["webhooks"][0]["clientConfig"]["service"]
    found["webhooks"][0]["clientConfig"]["url"] = url
    return found


def patched(kubectl: Kubectl, spec: dict[str, Any], *, dry_run: bool = True) -> str:
    """What kubectl shows on stderr of changing the service."""
    words = ["patch", KIND, "chat", "--type=merge", f"--patch={json.dumps({'spec': spec})}"]
    command = kubectl.words(*words, *(["--dry-run=server"] if dry_run else []))
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20)
    return done.stderr


def test_warns_of_what_restarts_and_of_nothing_else(warned: tuple[Kubectl, Operator]) -> None:
    kubectl, process = warned
    kubectl.apply(service("chat", replicas=2))
    wait_for(lambda: len(kubectl.list("pods")) == 2, 20, "pods, which never get an image")
    wait_for_condition(kubectl, "chat", "Ready", "False", says="2 pods")
    # A configuration takes the API server a moment.
    wait_for(lambda: patched(kubectl, {"runtime": {"maxNumSeqs": 8}}), 15, "the webhook to be asked")
    assert patched(kubectl, {"runtime": {"maxNumSeqs": 8}}).strip() == "Warning: restarts 2 pods"
    assert patched(kubectl, {"replicas": 1}).strip() == "Warning: stops 1 of 2 pods"
    assert patched(kubectl, {"replicas": 3}) == ""
    kubectl.run("annotate", KIND, "chat", "some=thing")
    assert "ValidatingWebhook" not in process.log.read_text()


def test_a_renewed_certificate_is_used(warned: tuple[Kubectl, Operator], cluster: Kubectl) -> None:
    kubectl, process = warned
    folder = process.log.parent
    authority = certificates.write_serving(folder, layout.NODE_IP)
    wait_for(lambda: "certificate has been renewed" in process.log.read_text(), 20, "the new certificate to be read")
    port = next(word.partition("=")[2] for word in process_words(process) if word.startswith("--webhook-port="))
    cluster.apply(configuration(kubectl, f"https://{layout.NODE_IP}:{port}{PATH}", authority))
    # By the new authority alone: the old one is gone from the configuration.
    wait_for(
        lambda: "restarts 2 pods" in patched(kubectl, {"runtime": {"maxNumSeqs": 8}}),
        20,
        "a warning by the new certificate",
    )


def test_changes_go_on_without_it(warned: tuple[Kubectl, Operator]) -> None:
    kubectl, process = warned
    process.pause()
    try:
        assert patched(kubectl, {"suspend": True}, dry_run=False) == "", "after the two seconds that it has"
    finally:
        process.resume()
    wait_for_condition(kubectl, "chat", "Ready", "True", says="Suspended", timeout_s=60)


def process_words(process: Operator) -> list[str]:
    return Path(f"/proc/{process.process.pid}/cmdline").read_text().split("\0")
