"""The one merge of what `spec.podTemplate` says into the template that the operator makes. Pure.

Maps are merged, containers by name. Of other lists that have keys (volumes, env, mounts …), an item replaces that of the same key,
whole; lists without keys replace the operator's.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from octavo_operator.spec.pod_template import PodTemplate

_MERGED = {"containers": ("name",), "initContainers": ("name",)}
_KEYED = {
    "env": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "ports": ("containerPort", "protocol"),
    "resourceClaims": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}


def merged(template: Mapping[str, Any], extra: PodTemplate) -> dict[str, Any]:
    """`template` with what `extra` says; what it leaves open stays as it is."""
    metadata = {
        **template["metadata"],
        # The operator's labels find the pods, so they win.
        "labels": {**extra.labels, **template["metadata"]["labels"]},
    }
    annotations = {**extra.annotations, **template["metadata"].get("annotations", {})}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": _maps(template["spec"], extra.spec)}


def _maps(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    return {**ours, **{name: _value(name, ours.get(name), below) for name, below in theirs.items()}}


def _value(name: str, ours: Any, theirs: Any) -> Any:
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        return _maps(ours, theirs)
    if isinstance(ours, list) and isinstance(theirs, list) and (name in _MERGED or name in _KEYED):
        return _lists(ours, theirs, name)
    return theirs


def _lists(ours: Sequence[Any], theirs: Sequence[Any], name: str) -> list[Any]:
    """Our items in their order, then what is only theirs."""
    keys = _MERGED.get(name) or _KEYED[name]
    news = {_identity(item, keys): item for item in theirs}
    kept = [_item(item, news.pop(_identity(item, keys), None), name) for item in ours]
    return [*kept, *news.values()]


def _item(ours: Mapping[str, Any], theirs: Mapping[str, Any] | None, name: str) -> Any:
    if theirs is None:
        return ours
    return _maps(ours, theirs) if name in _MERGED else theirs


def _identity(item: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(item.get(key, "TCP" if key == "protocol" else None) for key in keys)
