"""Which registry the images go to, and whether it holds one."""

import ipaddress
import urllib.error
import urllib.request
from collections.abc import Mapping

from tests.cluster.onenode import layout, lifecycle
from tests.cluster.onenode import registry as onenode_registry

_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)


def address(environ: Mapping[str, str]) -> str:
    """What `REGISTRY` names, else the loopback registry of the one-node cluster."""
    return environ.get("REGISTRY", "").rstrip("/") or layout.REGISTRY


def ensure(registry: str) -> None:
    """Starts the loopback registry where it is the one and does not run; any other is its owner's matter."""
    if registry == layout.REGISTRY and not onenode_registry.answers():
        lifecycle.ensure_registry()


def is_loopback(reference: str) -> bool:
    """Whether the registry of an image's name is this machine's own, and so speaks plain HTTP."""
    host = reference.partition("/")[0].rpartition(":")[0] or reference.partition("/")[0]
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def holds(reference: str) -> bool:
    """Whether the registry has the tag. One that does not say (it may want a login) counts as not having it: a push finds out."""
    repository, _, tag = reference.rpartition(":")
    host, _, name = repository.partition("/")
    scheme = "http" if is_loopback(reference) else "https"
    request = urllib.request.Request(f"{scheme}://{host}/v2/{name}/manifests/{tag}", method="HEAD")
    request.add_header("Accept", ", ".join(_MANIFESTS))
    # A loopback address is this machine's, never a proxy's.
    handlers = [urllib.request.ProxyHandler({})] if is_loopback(reference) else []
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=10.0) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False
