"""`spec.model`: the weights, where they lie, and the name that clients use. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from octavo_operator.spec.errors import SpecError


@dataclasses.dataclass(frozen=True)
class Source:
    """Where the weights lie: `path` in the runtime image, or below the mounted `claim`."""

    path: str
    claim: str | None = None


@dataclasses.dataclass(frozen=True)
class Model:
    source: Source
    served_name: str
    dtype: str | None = None


def parse(spec: Mapping[str, Any], default_name: str) -> Model:
    return Model(
        source=_source(spec["source"]),
        served_name=spec.get("servedName", default_name),
        dtype=spec.get("dtype"),
    )


def _source(text: str) -> Source:
    parts = urlsplit(text)
    if parts.scheme == "file" and not parts.netloc and len(parts.path) > 1:
        return Source(path=text.removeprefix("file://"))
    if parts.scheme == "pvc" and parts.netloc and len(parts.path) > 1:
        return Source(path=text.removeprefix(f"pvc://{parts.netloc}/"), claim=parts.netloc)
    raise SpecError("BadSource", f"spec.model.source '{text}' must be file:///path or pvc://claim/path: correct it")
