"""What `octavo inspect` found out about a model, as it travels: JSON of at most 4 KiB, which is all that a container may leave as
its termination message. The operator keeps it in the status, so the names are those of Kubernetes' fields."""

import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from typing import Any, Self, TypeVar

from octavo_sizing.errors import InspectionError
from octavo_sizing.model import Model

MOST_JSON_BYTES = 4096


@dataclasses.dataclass(frozen=True)
class StoredBytes:
    """Bytes of a model's tensors as its files hold them, by what they are for."""

    embedding: int = 0
    head: int = 0
    attention: int = 0
    mlp: int = 0
    norms: int = 0

    @property
    def total(self) -> int:
        return self.embedding + self.head + self.attention + self.mlp + self.norms


@dataclasses.dataclass(frozen=True)
class Inspection:
    """A model's sizes. `format` is `safetensors` or `gguf`; `dtype` the type of most of its bytes (`bfloat16`, `Q4_1`);
    `revision` what a hub's branch or tag stood for, None where there are no revisions."""

    source: str
    format: str
    dtype: str
    stored: StoredBytes
    model: Model
    revision: str | None = None

    def to_fields(self) -> dict[str, Any]:
        """As JSON and the status have it; what is None is left out."""
        fields = {
            "source": self.source,
            "revision": self.revision,
            "format": self.format,
            "dtype": self.dtype,
            "storedBytes": _fields(self.stored),
            "model": _fields(self.model),
        }
        return {name: value for name, value in fields.items() if value is not None}

    def to_json(self) -> str:
        text = json.dumps(self.to_fields(), separators=(",", ":"), sort_keys=True)
        if len(text.encode()) > MOST_JSON_BYTES:
            raise InspectionError(f"the source's name is too long ({len(self.source):,} characters): shorten it")
        return text

    @classmethod
    def from_fields(cls, fields: Any) -> Self:
        """Raises InspectionError where `fields` are not what `to_fields` gives; unknown ones are a newer runtime's."""
        known = _object("", fields)
        return cls(
            source=_text(known, "source"),
            format=_text(known, "format"),
            dtype=_text(known, "dtype"),
            stored=_parsed(StoredBytes, "storedBytes", known, least=0),
            model=_parsed(Model, "model", known, least=1),
            revision=_text(known, "revision") if "revision" in known else None,
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises InspectionError."""
        try:
            return cls.from_fields(json.loads(text))
        except json.JSONDecodeError as error:
            raise InspectionError(f"an inspection's result is not JSON ({error}): '{text[:80]}'") from error


T = TypeVar("T", StoredBytes, Model)


def _fields(value: StoredBytes | Model) -> dict[str, Any]:
    return {_field(name): one for name, one in dataclasses.asdict(value).items() if one is not None}


@functools.cache
def _field(name: str) -> str:
    return re.sub("_(.)", lambda match: match[1].upper(), name)


def _parsed(kind: type[T], name: str, fields: Mapping[str, Any], least: int) -> T:
    values = _object(name, fields.get(name))
    known = {field.name: field for field in dataclasses.fields(kind)}
    found: dict[str, Any] = {}
    for attribute, field in known.items():
        value = values.get(_field(attribute))
        if value is None:
            if field.default is dataclasses.MISSING:
                raise InspectionError(f"an inspection's result has no {name}.{_field(attribute)}")
            continue
        flag = isinstance(field.default, bool)
        if isinstance(value, bool) != flag or not isinstance(value, int) or (not flag and value < least):
            raise InspectionError(f"an inspection's result has {name}.{_field(attribute)} = {value!r}")
        found[attribute] = value
    return kind(**found)


def _object(name: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InspectionError(f"an inspection's result is no JSON object{f' at {name}' if name else ''}: {value!r:.80}")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if not isinstance(value, str) or not value:
        raise InspectionError(f"an inspection's result has {name} = {value!r:.80}")
    return value
