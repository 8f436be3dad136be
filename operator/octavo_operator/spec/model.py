"""`spec.model`: the weights, where they lie, and the name that clients use. Pure."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from octavo_operator.spec.amounts import amount
from octavo_operator.spec.errors import SpecError
from octavo_operator.spec.secrets import SecretKey, parse_secret_key

# A reference with a host and a tag or digest, so that where it ends and the path begins is plain.
_OCI = re.compile(r"oci://(?P<image>[^/]+(?:/[^/:@]+)*/[^/:@]+(?::[^/:@]+(?:@[^/]+)?|@[^/]+))(?P<path>/.*)?")
_FORMS = "hf://org/repository, pvc://claim/path, oci://registry/image:tag/path or file:///path"


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the weights lie: in the `hub` repository of that name, or at `path` in the runtime image, below the mounted `claim`, or
    in the mounted `image`.
    """

    path: str = ""
    claim: str | None = None
    image: str | None = None
    hub: str | None = None


@dataclasses.dataclass(frozen=True)
class Cache:
    """Where downloaded and packed weights live: a claim, a folder of the node, or with the pod (at most `size_limit`, if set)."""

    claim: str | None = None
    host_path: str | None = None
    size_limit: str | None = None

    @property
    def lasts(self) -> bool:
        """Whether the next pod finds what this one put there."""
        return self.claim is not None or self.host_path is not None


@dataclasses.dataclass(frozen=True)
class Model:
    """`token` opens the hub; `cache` is None where nothing has to be kept."""

    source: Source
    served_name: str
    dtype: str | None = None
    token: SecretKey | None = None
    cache: Cache | None = None


def parse(spec: Mapping[str, Any], default_name: str) -> Model:
    source = parse_source(spec["source"])
    return Model(
        source=source,
        served_name=spec.get("servedName", default_name),
        dtype=spec.get("dtype"),
        token=parse_secret_key(spec.get("tokenSecretRef"), "token"),
        cache=_cache(spec.get("cache", {} if source.hub else None)),
    )


def parse_source(text: str) -> Source:
    parts = urlsplit(text)
    if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return Source(path=text.removeprefix("file://"))
    if parts.scheme == "pvc" and parts.netloc and len(parts.path) > 1:
        return Source(path=text.removeprefix(f"pvc://{parts.netloc}/"), claim=parts.netloc)
    if parts.scheme == "hf" and parts.netloc and len(parts.path) > 1:
        return Source(hub=text)
    if found := _OCI.fullmatch(text):
        return Source(path=(found["path"] or "").removeprefix("/"), image=found["image"])
    raise SpecError("BadSource", f"spec.model.source '{text}' must be {_FORMS}: correct it")


def _cache(spec: Mapping[str, Any] | None) -> Cache | None:
    if spec is None:
        return None
    return Cache(
        claim=spec.get("persistentVolumeClaim", {}).get("claimName"),
        host_path=spec.get("hostPath", {}).get("path"),
        size_limit=amount("spec.model.cache.emptyDir.sizeLimit", spec.get("emptyDir", {}).get("sizeLimit")),
    )
