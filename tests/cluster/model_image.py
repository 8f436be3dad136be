"""A model as an image that holds nothing else, pushed to a registry by its HTTP API: what a pod mounts as an image volume.

Source: the OCI image and distribution specifications, https://github.com/opencontainers/image-spec and …/distribution-spec
"""

import hashlib
import io
import json
import tarfile
import urllib.request
from pathlib import Path
from typing import Any

_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def push(registry: str, name: str, tag: str, model: Path, folder: str) -> str:
    """Push the files of `model` below `/<folder>` of an image; its reference. The registry speaks plain HTTP."""
    layer = _tar(model, folder)
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    ).encode()
    base = f"http://{registry}/v2/{name}"
    for content in (config, layer):
        _upload(base, content)
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": _descriptor(_CONFIG, config),
        "layers": [_descriptor(_LAYER, layer)],
    }
    _send("PUT", f"{base}/manifests/{tag}", json.dumps(manifest).encode(), _MANIFEST)
    return f"{registry}/{name}:{tag}"


def _tar(model: Path, folder: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for path in sorted(model.iterdir()):
            tar.add(path, f"{folder}/{path.name}", filter=_readable)
    return packed.getvalue()


def _readable(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode, member.uid, member.gid, member.mtime = 0o644, 0, 0, 0
    return member


def _upload(base: str, content: bytes) -> None:
    place = _send("POST", f"{base}/blobs/uploads/", b"")
    separator = "&" if "?" in place else "?"
    _send("PUT", f"{place}{separator}digest={_digest(content)}", content, "application/octet-stream")


def _send(method: str, url: str, content: bytes, kind: str = "application/octet-stream") -> str:
    """Where the registry says to go on."""
    request = urllib.request.Request(url, content, {"Content-Type": kind}, method=method)
    # Through no proxy: the address is this machine's.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=30.0) as response:
        return str(response.headers.get("Location", ""))


def _descriptor(kind: str, content: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
