"""The LeaderWorkerSet controller as it is, on this machine: its CRD, its webhooks with a certificate of our own, the program.

Definitions are read from the module it is built from; only the webhooks' address is ours.
"""

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster import hosted
from tests.cluster.kubectl import Kubectl, Object, wait_until_served
from tests.cluster.onenode import addons, certificates, layout

MODULE = "sigs.k8s.io/lws"
CRD = "leaderworkersets.leaderworkerset.x-k8s.io"
WEBHOOK_PORT = 22260
HEALTH_PORT = 22261


@contextmanager
def controller(kubectl: Kubectl, folder: Path) -> Iterator[None]:
    """LeaderWorkerSets are served and worked on while the block runs; then kind, webhooks and program are gone."""
    source = addons.source(addons.LWS, MODULE)
    authority = certificates.Authority()
    _write_certificate(authority, folder / "certificates")
    hooks = _webhooks(source / "config" / "webhook", authority)
    configuration = folder / "configuration.yaml"
    configuration.write_text(yaml.safe_dump(_configuration(folder / "certificates")))
    program: list[str | Path] = [
        addons.ensure("lws"),
        f"--config={configuration}",
        f"--kubeconfig={kubectl.access.kubeconfig}",
    ]
    # Before anybody can make one: pods of a LeaderWorkerSet that its webhooks did not see have no number, and never get one.
    kubectl.apply(*hooks, server_side=True)
    try:
        kubectl.run("apply", "--server-side", f"--filename={source / 'config' / 'crd' / 'bases'}")
        wait_until_served(kubectl, CRD)
        with hosted.running(program, folder / "log", f"http://127.0.0.1:{HEALTH_PORT}/readyz"):
            yield
    finally:
        for hook in hooks:
            kubectl.delete(hook["kind"], hook["metadata"]["name"])
        kubectl.delete("crd", CRD)


def _configuration(certificate_folder: Path) -> dict[str, Any]:
    return {
        "apiVersion": "config.lws.x-k8s.io/v1alpha1",
        "kind": "Configuration",
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "metrics": {"bindAddress": "0"},
        "health": {"healthProbeBindAddress": f"127.0.0.1:{HEALTH_PORT}"},
        "webhook": {"host": layout.NODE_IP, "port": WEBHOOK_PORT, "certDir": str(certificate_folder)},
    }


def _write_certificate(authority: certificates.Authority, folder: Path) -> None:
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    identity = certificates.Identity("tls", "lws-webhook", hosts=(layout.NODE_IP,))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "tls.key").write_bytes(private)
    (folder / "tls.crt").write_bytes(authority.sign(identity, key).public_bytes(serialization.Encoding.PEM))


def _webhooks(folder: Path, authority: certificates.Authority) -> list[Object]:
    """The module's webhook configurations, those of pods as its patches narrow them, with our address and authority."""
    hooks: list[Object] = list(yaml.safe_load_all((folder / "manifests.yaml").read_text()))
    bundle = base64.b64encode(authority.certificate.public_bytes(serialization.Encoding.PEM)).decode()
    for configuration, patch in zip(hooks, ("mutating-patch.yaml", "validating-patch.yaml"), strict=True):
        [replacement] = yaml.safe_load((folder / patch).read_text())
        configuration["webhooks"][int(replacement["path"].rpartition("/")[2])] = replacement["value"]
        configuration["metadata"]["name"] = f"octavo-test-lws-{configuration['metadata']['name']}"
        for hook in configuration["webhooks"]:
            path = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://{layout.NODE_IP}:{WEBHOOK_PORT}{path}", "caBundle": bundle}
    return hooks
