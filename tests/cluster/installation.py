"""Our images and the chart on the cluster: built and pushed where they are not yet, installed by helm as a user would."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import local_operator
from tests.cluster.access import Access, AccessError
from tests.cluster.images.build import build
from tests.cluster.kubectl import Kubectl, run_command
from tests.cluster.onenode import layout

REPOSITORY = Path(__file__).parents[2]
CHART = REPOSITORY / "charts" / "octavo"
RELEASE = "octavo"
CRD = "inferenceservices.serving.octavo.dev"
OWNED_LABEL = "serving.octavo.dev/checks"


@dataclass(frozen=True)
class Images:
    operator: str
    runtime: str
    runtime_demo: str


def ensure_images(access: Access) -> Images:
    """Builds and pushes what the tree lacks in the registry (seconds where nothing changed); its progress is printed."""
    references = build({**os.environ, "REGISTRY": access.registry})
    return Images(references["operator"], references["runtime"], references["runtime-demo"])


def check_foreign(kubectl: Kubectl) -> None:
    """Raises `AccessError` where a foreign cluster holds our CRD or namespace and it was not these checks that made it."""
    namespace = kubectl.access.operator_namespace
    crd = kubectl.get("customresourcedefinition", CRD)
    if crd is not None:
        made_by = crd["metadata"].get("annotations", {}).get("meta.helm.sh/release-namespace")
        if made_by != namespace:
            raise AccessError(
                f"the cluster {kubectl.access.context} has the CRD {CRD} already, installed in namespace {made_by or 'unknown'}: "
                "use a cluster without Octavo, so that its services stay untouched"
            )
    found = kubectl.get("namespace", namespace)
    if found is not None and OWNED_LABEL not in found["metadata"].get("labels", {}):
        raise AccessError(
            f"the cluster {kubectl.access.context} has a namespace {namespace} that is not ours: remove it first"
        )


def watched_namespace(access: Access) -> str | None:
    """The one namespace that the operator watches, or None where it watches the whole cluster."""
    return local_operator.namespace() or (access.operator_namespace if access.is_foreign else None)


def ensure_namespace(kubectl: Kubectl, name: str) -> None:
    """Makes the namespace, with the label that says that a session may clear it away; a local operator's stays."""
    labels = {} if name == local_operator.namespace() else {OWNED_LABEL: "true"}
    kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})


def clear_leftovers(kubectl: Kubectl) -> None:
    """Removes what a session that was killed left in the one-node cluster: namespaces of tests, with their pods."""
    left = [item["metadata"]["name"] for item in kubectl.list("namespaces", f"{OWNED_LABEL}=true")]
    for name in left:
        if name != kubectl.access.operator_namespace:
            kubectl.delete("namespace", name, timeout_s=120.0)


def install(kubectl: Kubectl, images: Images, values: Mapping[str, Any] | None = None) -> None:
    """Installs or upgrades the chart and waits for the operator; on a foreign cluster namespaced."""
    namespace = kubectl.access.operator_namespace
    ensure_namespace(kubectl, namespace)
    # What was killed amid an installation would refuse every later one.
    if RELEASE in helm(kubectl.access, "list", "--pending", "--short").split():
        helm(kubectl.access, "uninstall", RELEASE, "--wait", "--timeout=60s")
    chosen: dict[str, Any] = {
        "operator": {"image": images.operator},
        # The image with the small model inside, so that the examples run without a network.
        "runtime": {"image": images.runtime_demo},
        **({"watch": {"namespaces": [namespace]}} if kubectl.access.is_foreign else {}),
        "autoscaling": {"prometheusAddress": layout.PROMETHEUS_URL},
        **({} if kubectl.access.is_foreign else {"allow": {"hostPaths": [str(layout.VOLUMES)]}}),
        **(values or {}),
    }
    helm(
        kubectl.access,
        "upgrade",
        "--install",
        RELEASE,
        str(CHART),
        "--values=-",
        "--wait",
        "--timeout=180s",
        values=chosen,
    )


def uninstall(kubectl: Kubectl) -> None:
    """Removes the release; on a foreign cluster also the CRD and the namespace, which only these checks made."""
    helm(kubectl.access, "uninstall", RELEASE, "--ignore-not-found", "--wait", "--timeout=60s")
    if kubectl.access.is_foreign:
        kubectl.delete("customresourcedefinition", CRD)
        kubectl.delete("namespace", kubectl.access.operator_namespace)


def helm(access: Access, *words: str, values: Mapping[str, Any] | None = None) -> str:
    bound = [
        f"--kubeconfig={access.kubeconfig}",
        f"--kube-context={access.context}",
        f"--namespace={access.operator_namespace}",
    ]
    stdin = None if values is None else json.dumps(values)
    return run_command([access.helm, *words, *bound], stdin=stdin, timeout_s=240.0)
