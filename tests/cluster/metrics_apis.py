"""prometheus-adapter and KEDA as they are, on this machine: what serves custom and external metrics to autoscalers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.cluster import hosted, prometheus
from tests.cluster.installation import CHART, RELEASE, helm
from tests.cluster.kubectl import Kubectl, Object, condition, wait_for
from tests.cluster.onenode import addons, binaries, certificates, layout

ADAPTER_PORT = 22271
KEDA_GRPC_PORT = 22272
KEDA_HEALTH_PORT = 22273
KEDA_ADAPTER_PORT = 22274
KEDA_ADAPTER_METRICS_PORT = 22275
NAMESPACE = "kube-system"


@contextmanager
def custom_metrics(kubectl: Kubectl, folder: Path) -> Iterator[None]:
    """prometheus-adapter with the chart's rules serves the custom metrics API while the block runs."""
    folder.mkdir(exist_ok=True)
    rules = folder / "rules.yaml"
    rules.write_text(chart_rules(kubectl))
    command: list[str | Path] = [
        addons.ensure("prometheus-adapter"),
        f"--config={rules}",
        f"--prometheus-url={prometheus.URL}/",
        "--metrics-relist-interval=2s",
        "--metrics-max-age=1m",
        f"--lister-kubeconfig={kubectl.access.kubeconfig}",
        *_serving(kubectl, ADAPTER_PORT),
        f"--cert-dir={folder / 'adapter-certificates'}",
    ]
    url = f"https://{layout.NODE_IP}:{ADAPTER_PORT}/healthz"
    with hosted.running(command, folder / "prometheus-adapter.log", url):
        versions = ["v1beta1.custom.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"]
        with _aggregated(kubectl, "octavo-test-prometheus-adapter", ADAPTER_PORT, versions):
            yield


def define(kubectl: Kubectl) -> None:
    """Makes what KEDA, and the Prometheus Operator, have in their modules known to the API server, for the cluster's life."""
    keda = addons.source(addons.KEDA, "github.com/kedacore/keda/v2") / "config" / "crd" / "bases"
    monitors = addons.source(addons.PROMETHEUS_OPERATOR, "github.com/prometheus-operator/prometheus-operator")
    folder = monitors / "example" / "prometheus-operator-crd"
    files = [
        *keda.iterdir(),
        *(folder / f"monitoring.coreos.com_{kind}.yaml" for kind in ("podmonitors", "prometheusrules")),
    ]
    names = [yaml.safe_load(file.read_text())["metadata"]["name"] for file in files]
    kubectl.run("apply", "--server-side", "--force-conflicts", *(f"--filename={file}" for file in files))
    kubectl.run("wait", "--for=condition=Established", *(f"crd/{name}" for name in names))


@contextmanager
def keda(kubectl: Kubectl, watched: str, folder: Path) -> Iterator[None]:
    """KEDA scales the ScaledObjects of the namespace `watched` and serves the external metrics API while the block runs.

    Needs what `define` makes known.
    """
    folder.mkdir(exist_ok=True)
    secrets = folder / "keda-certificates"
    _write_certificates(secrets)
    # What a pod would have from its service account and the downward API.
    own = ("POD_NAMESPACE", "KEDA_CLUSTER_OBJECT_NAMESPACE")
    environ = ["env", f"WATCH_NAMESPACE={watched}", *(f"{name}={NAMESPACE}" for name in own)]
    operator: list[str | Path] = [
        *environ,
        addons.ensure("keda-operator"),
        f"--kubeconfig={kubectl.access.kubeconfig}",
        f"--cert-dir={secrets}",
        "--metrics-bind-address=0",
        f"--health-probe-bind-address=127.0.0.1:{KEDA_HEALTH_PORT}",
        f"--metrics-service-bind-address=127.0.0.1:{KEDA_GRPC_PORT}",
    ]
    adapter: list[str | Path] = [
        *environ,
        addons.ensure("keda-adapter"),
        f"--kubeconfig={kubectl.access.kubeconfig}",
        f"--lister-kubeconfig={kubectl.access.kubeconfig}",
        f"--metrics-service-address=127.0.0.1:{KEDA_GRPC_PORT}",
        f"--port={KEDA_ADAPTER_METRICS_PORT}",
        *_serving(kubectl, KEDA_ADAPTER_PORT),
        f"--cert-dir={secrets}",
        f"--tls-cert-file={secrets / 'tls.crt'}",
        f"--tls-private-key-file={secrets / 'tls.key'}",
    ]
    url = f"https://{layout.NODE_IP}:{KEDA_ADAPTER_PORT}/healthz"
    with (
        hosted.running(operator, folder / "keda-operator.log", f"http://127.0.0.1:{KEDA_HEALTH_PORT}/readyz"),
        hosted.running(adapter, folder / "keda-adapter.log", url),
        _aggregated(kubectl, "octavo-test-keda-adapter", KEDA_ADAPTER_PORT, ["v1beta1.external.metrics.k8s.io"]),
    ):
        yield
        # Only KEDA takes its own finalizers away.
        kubectl.within(watched).run("delete", "scaledobjects.keda.sh", "--all", timeout_s=60.0)


def chart_rules(kubectl: Kubectl) -> str:
    """The adapter's configuration as the chart's ConfigMap has it."""
    text = helm(
        kubectl.access,
        *("template", RELEASE, str(CHART), "--show-only=templates/prometheus-adapter-rules.yaml", "--values=-"),
        # Without asking a cluster, helm takes the version that it was built with for the cluster's.
        f"--kube-version={binaries.KUBERNETES_VERSION}",
        values={
            "operator": {"image": "registry.example/octavo-operator:1"},
            "autoscaling": {"prometheusAdapterRules": {"enabled": True}},
        },
    )
    rules: str = yaml.safe_load(text)["data"]["config.yaml"]
    return rules


def _serving(kubectl: Kubectl, port: int) -> list[str]:
    """Flags of a server of an aggregated API: it asks the cluster who calls and what he may."""
    return [
        f"--bind-address={layout.NODE_IP}",
        f"--secure-port={port}",
        f"--authentication-kubeconfig={kubectl.access.kubeconfig}",
        f"--authorization-kubeconfig={kubectl.access.kubeconfig}",
    ]


@contextmanager
def _aggregated(kubectl: Kubectl, name: str, port: int, api_services: Sequence[str]) -> Iterator[None]:
    """The API server passes the APIs on to the port while the block runs."""
    system = kubectl.within(NAMESPACE)
    objects = [*_service(name, port), *(_api_service(api, name) for api in api_services)]
    system.apply(*objects, server_side=True)
    try:
        for api in api_services:
            wait_for(lambda api=api: _is_available(system, api), 60, f"{api} to be served")  # type: ignore[misc] # bound now
        yield
    finally:
        # The APIs first: while one is there and does not answer, no namespace can be deleted.
        for item in reversed(objects):
            system.delete(item["kind"], item["metadata"]["name"])


def _is_available(kubectl: Kubectl, api: str) -> bool:
    return condition(kubectl.get("apiservice", api), "Available").get("status") == "True"


def _service(name: str, port: int) -> list[Object]:
    """A Service without selector, and its one endpoint, which is no pod."""
    metadata = {"name": name, "namespace": NAMESPACE}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": metadata,
            "spec": {"ports": [{"name": "https", "port": 443, "targetPort": port}]},
        },
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**metadata, "labels": {"kubernetes.io/service-name": name}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [layout.NODE_IP], "conditions": {"ready": True}}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        },
    ]


def _api_service(name: str, service: str) -> Object:
    version, _, group = name.partition(".")
    return {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": name},
        "spec": {
            "group": group,
            "version": version,
            "service": {"name": service, "namespace": NAMESPACE},
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
        },
    }


def _write_certificates(folder: Path) -> None:
    """What KEDA's two programs show to one another: one certificate of an authority that both know."""
    folder.mkdir()
    authority, key = certificates.Authority(), ec.generate_private_key(ec.SECP256R1())
    identity = certificates.Identity("tls", "keda", hosts=("127.0.0.1", layout.NODE_IP))
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem = serialization.Encoding.PEM
    (folder / "ca.crt").write_bytes(authority.certificate.public_bytes(pem))
    (folder / "tls.crt").write_bytes(authority.sign(identity, key).public_bytes(pem))
    (folder / "tls.key").write_bytes(private)
