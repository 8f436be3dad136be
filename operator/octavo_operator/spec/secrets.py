"""References to one key of a Secret of the service's namespace. Pure."""

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class SecretKey:
    name: str
    key: str


def parse_secret_key(spec: Mapping[str, Any] | None, default_key: str) -> SecretKey | None:
    return None if spec is None else SecretKey(spec["name"], spec.get("key", default_key))
