"""Which cluster the tests and the demo use, and with which programs.

`OCTAVO_KUBECONFIG` and `OCTAVO_CONTEXT` together name a foreign cluster, `REGISTRY` the registry it pulls our images from;
without them it is the one-node cluster of this machine. `KUBECONFIG` and `~/.kube/config` are never read: the shell may point at
production.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.onenode import binaries, layout

CHECK_NAMESPACE = "octavo-check"
SYSTEM_NAMESPACE = "octavo-system"


class AccessError(Exception):
    """The variables contradict one another, or name what is not there; the text says which and the remedy."""


@dataclass(frozen=True)
class Access:
    kubeconfig: Path
    context: str
    registry: str
    kubectl: Path
    helm: Path
    is_foreign: bool

    @property
    def operator_namespace(self) -> str:
        """Where the chart is installed: on a foreign cluster a namespace of our own, which holds everything."""
        return CHECK_NAMESPACE if self.is_foreign else SYSTEM_NAMESPACE


def resolve(environ: Mapping[str, str]) -> Access:
    """Reads the variables (an empty one counts as unset); nothing is started."""
    kubeconfig, context = environ.get("OCTAVO_KUBECONFIG", ""), environ.get("OCTAVO_CONTEXT", "")
    registry = environ.get("REGISTRY", "")
    if not kubeconfig and not context:
        return Access(
            kubeconfig=layout.KUBECONFIG,
            context=layout.CONTEXT,
            registry=registry or layout.REGISTRY,
            kubectl=binaries.path("kubectl"),
            helm=binaries.path("helm"),
            is_foreign=False,
        )
    if not kubeconfig or not context:
        given, missing = (
            ("OCTAVO_KUBECONFIG", "OCTAVO_CONTEXT") if kubeconfig else ("OCTAVO_CONTEXT", "OCTAVO_KUBECONFIG")
        )
        raise AccessError(f"{given} is set and {missing} is not: set both to use that cluster, or neither")
    if not registry:
        raise AccessError("OCTAVO_KUBECONFIG names a cluster: set REGISTRY to a registry that it can pull from")
    if not Path(kubeconfig).is_file():
        raise AccessError(f"OCTAVO_KUBECONFIG: there is no file {kubeconfig}")
    return Access(
        kubeconfig=Path(kubeconfig),
        context=context,
        registry=registry,
        kubectl=_program("kubectl", environ),
        helm=_program("helm", environ),
        is_foreign=True,
    )


def _program(name: str, environ: Mapping[str, str]) -> Path:
    built = binaries.path(name)
    if built.exists():
        return built
    found = shutil.which(name, path=environ.get("PATH"))
    if found is None:
        raise AccessError(f"{name} is not on PATH: install it, it is needed for the cluster that OCTAVO_CONTEXT names")
    return Path(found)
