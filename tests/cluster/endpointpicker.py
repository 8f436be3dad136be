"""The Gateway API Inference Extension's endpoint picker as it is, on this machine, for one InferencePool."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import hosted
from tests.cluster.kubectl import Kubectl, wait_until_served
from tests.cluster.onenode import addons

MODULE = "sigs.k8s.io/gateway-api-inference-extension"
# Each with the module whose folder of definitions has it.
CRDS = {
    "inferencepools.inference.networking.k8s.io": (MODULE, "config/crd/bases"),
    "inferenceobjectives.inference.networking.x-k8s.io": (MODULE, "config/crd/bases"),
    "httproutes.gateway.networking.k8s.io": ("sigs.k8s.io/gateway-api", "config/crd/standard"),
}
EXT_PROC_PORT = 22262
HEALTH_PORT = 22263
METRICS_PORT = 22264
METRICS_URL = f"http://127.0.0.1:{METRICS_PORT}/metrics"
CONFIGURATION = """
apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: kv-cache-utilization-scorer
- type: queue-scorer
- type: max-score-picker
- type: single-profile-handler
schedulingProfiles:
- name: default
  plugins:
  - pluginRef: kv-cache-utilization-scorer
  - pluginRef: queue-scorer
  - pluginRef: max-score-picker
"""


@contextmanager
def definitions(kubectl: Kubectl) -> Iterator[None]:
    """InferencePools and HTTPRoutes are served while the block runs."""
    for name, (module, folder) in CRDS.items():
        plural, _, group = name.partition(".")
        file = addons.source(addons.INFERENCE_EXTENSION, module) / folder / f"{group}_{plural}.yaml"
        kubectl.run("apply", "--server-side", f"--filename={file}")
    try:
        for name in CRDS:
            wait_until_served(kubectl, name)
        yield
    finally:
        for name in CRDS:
            kubectl.delete("crd", name)


@contextmanager
def picker(kubectl: Kubectl, pool: str, log: Path) -> Iterator[None]:
    """The picker reads the pods of the pool in kubectl's namespace while the block runs; its own metrics are at `METRICS_URL`."""
    command: list[str | Path] = [
        addons.ensure("epp"),
        f"--kubeconfig={kubectl.access.kubeconfig}",
        f"--pool-name={pool}",
        f"--pool-namespace={kubectl.namespace}",
        f"--grpc-port={EXT_PROC_PORT}",
        f"--grpc-health-port={HEALTH_PORT}",
        f"--metrics-port={METRICS_PORT}",
        "--metrics-endpoint-auth=false",
        "--secure-serving=false",
        "--enable-pprof=false",
        "--tracing=false",
        "--refresh-prometheus-metrics-interval=1s",
        f"--config-text={CONFIGURATION}",
    ]
    with hosted.running(command, log, METRICS_URL):
        yield
