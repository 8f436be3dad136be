"""Whether a live child differs from what is desired, and where. Pure; `kube` applies.

Server-side apply bumps nothing when nothing changes, but it is still a write to the API server and its audit log; an idle operator
makes none. A child differs where a desired leaf is not live, where our apply entry in `metadata.managedFields` owns a path that
is no longer desired or lacks a desired number of pods, or where that entry is missing. What others added is theirs and stays.
"""

import functools
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from octavo_operator import names

# The API's merge keys of the lists that children have (`x-kubernetes-list-map-keys`); every other list is compared whole.
_MERGE_KEYS: dict[str, tuple[tuple[str, ...], ...]] = {
    "containers": (("name",),),
    "env": (("name",),),
    "hostAliases": (("ip",),),
    "imagePullSecrets": (("name",),),
    "initContainers": (("name",),),
    "ownerReferences": (("uid",),),
    "ports": (("containerPort", "protocol"), ("port", "protocol")),
    "resourceClaims": (("name",),),
    "topologySpreadConstraints": (("topologyKey", "whenUnsatisfiable"),),
    "volumeDevices": (("devicePath",),),
    "volumeMounts": (("mountPath",),),
    "volumes": (("name",),),
}

# Maps that the API merges only as a whole (`x-kubernetes-map-type: atomic`): one more key in them is not an addition of another's.
_ATOMIC_MAPS = {"nodeSelector", "selector"}

# Ours, and the controllers that write into every Deployment.
_KNOWN_MANAGERS = {names.FIELD_MANAGER, names.HANDOVER_MANAGER, "kube-controller-manager"}


def differences(desired: Mapping[str, Any], live: Mapping[str, Any]) -> list[str]:
    """Paths at which `live` is not as `desired`, such as `spec.template.spec.containers[name=runtime].image`."""
    owned = owned_fields(live)
    if owned is None:
        return ["metadata.managedFields"]
    return sorted({*_missing(desired, live, ""), *_stale(owned, desired, ""), *_given_up(owned, desired)})


def holds_template(live: Mapping[str, Any], template: Mapping[str, Any]) -> bool:
    """Whether nothing differs in `spec.template`."""
    of_template = (owned_fields(live) or {}).get("f:spec", {}).get("f:template", {})
    found = itertools.chain(_missing(template, live["spec"]["template"], ""), _stale(of_template, template, ""))
    return next(found, None) is None


def port_repairs(desired: Mapping[str, Any], live: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The JSON-patch operations that make each `ports` list of `live` which holds an item that is not desired the desired list.

    Server-side apply merges ports by number: one whose number was changed by hand is foreign to it and stays beside ours, with
    the same name, which no object may have. Only ports are put back so: they are the same for every spec, so it does no harm that
    whoever patches owns them besides our apply.
    """
    return list(_port_repairs(desired, live, ""))


def last_writer(live: Mapping[str, Any]) -> str:
    """The manager other than ours that last wrote to `live` (its subresources aside), or an empty string."""
    others = [
        entry
        for entry in live["metadata"].get("managedFields", ())
        if entry["manager"] not in (names.FIELD_MANAGER, names.HANDOVER_MANAGER) and not entry.get("subresource")
    ]
    # RFC 3339 in UTC, whose order is that of text.
    return str(max(others, key=lambda entry: entry.get("time", ""))["manager"]) if others else ""


def taken(desired: Mapping[str, Any], live: Mapping[str, Any]) -> dict[str, list[str]]:
    """Paths at which another manager set something else than is desired, by that manager."""
    found = {str(entry["manager"]): sorted(_taken(entry["fieldsV1"], desired, live, "")) for entry in _of_others(live)}
    return {manager: paths for manager, paths in found.items() if paths}


def other_managers(live: Mapping[str, Any]) -> frozenset[str]:
    """Who besides the operator set fields of `live`: people and programs, but none of the cluster's own controllers."""
    return frozenset(str(entry["manager"]) for entry in _of_others(live))


def controlled_by(live: Mapping[str, Any], uid: str) -> bool:
    """Whether the controller of `live` is the object with `uid`."""
    return _controller(live).get("uid") == uid


def left_behind(live: Mapping[str, Any], name: str, uid: str) -> bool:
    """Whether `live` belonged to a deleted InferenceService called `name`, so that garbage collection is about to remove it."""
    controller = _controller(live)
    kind = (controller.get("apiVersion", "").partition("/")[0], controller.get("kind"), controller.get("name"))
    return kind == (names.GROUP, names.KIND, name) and controller["uid"] != uid


def _controller(live: Mapping[str, Any]) -> Mapping[str, Any]:
    owners = live["metadata"].get("ownerReferences", ())
    return next((owner for owner in owners if owner.get("controller")), {})


def owned_fields(live: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """What the operator's apply owns of `live`, as a fieldsV1 tree; None where it never applied."""
    for entry in live["metadata"].get("managedFields", ()):
        if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (names.FIELD_MANAGER, "Apply", ""):
            fields: Mapping[str, Any] = entry["fieldsV1"]
            return fields
    return None


def _of_others(live: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [
        entry
        for entry in live["metadata"].get("managedFields", ())
        if entry["manager"] not in _KNOWN_MANAGERS and entry.get("subresource") != "status"
    ]


def _taken(owned: Mapping[str, Any], desired: Any, live: Any, path: str) -> Iterator[str]:
    """Paths of `owned` (a fieldsV1 tree) at which `desired` says one thing and `live` another."""
    for token, below in owned.items():
        kind, _, text = token.partition(":")
        if kind == "f" and isinstance(desired, Mapping) and isinstance(live, Mapping) and text in desired:
            here = _join(path, text)
            if below:
                yield from _taken(below, desired[text], live.get(text), here)
            elif text in live and desired[text] != live[text]:
                yield here
        elif kind == "k" and (item := _find(desired, keys := _keys(text))) is not None:
            yield from _taken(below, item, _find(live, keys), _item(path, keys))


def _missing(desired: Any, live: Any, path: str) -> Iterator[str]:
    if isinstance(desired, dict) and isinstance(live, dict):
        for field, value in desired.items():
            below = live.get(field)
            if value == below and below is not None:
                continue  # most of an object, and then no path has to be made out
            here = _join(path, field)
            if field not in live:
                # What is false, zero or empty is dropped where the API server stores it; only podTemplate says such things.
                if value or value == {}:
                    yield here
            elif field in _ATOMIC_MAPS:
                yield here
            elif isinstance(value, list) and field in _MERGE_KEYS:
                yield from _missing_items(field, value, below, here)
            else:
                yield from _missing(value, below, here)
    elif desired != live:
        yield path


def _missing_items(field: str, desired: list[Any], live: Any, path: str) -> Iterator[str]:
    for item in desired:
        wanted = _identity(field, item)
        here = _item(path, wanted)
        found = _find(live, wanted)
        if found is None:
            yield here
        else:
            yield from _missing(item, found, here)


def _port_repairs(desired: Mapping[str, Any], live: Mapping[str, Any], pointer: str) -> Iterator[dict[str, Any]]:
    for field, value in desired.items():
        below, here = live.get(field), f"{pointer}/{field}"
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            yield from _port_repairs(value, below, here)
        elif field == "ports" and isinstance(below, Sequence):
            if any(_find(value, _identity(field, port)) is None for port in below):
                yield {"op": "replace", "path": here, "value": value}
        elif field == "containers" and isinstance(below, Sequence):
            for index, container in enumerate(below):
                wanted = _find(value, _identity(field, container))
                if wanted is not None:
                    yield from _port_repairs(wanted, container, f"{here}/{index}")


def _identity(field: str, item: Mapping[str, Any]) -> dict[str, Any]:
    """The merge keys of `item` in the list `field`, with their values; those that it lacks are for the API server to refuse."""
    every = _MERGE_KEYS[field]
    keys = next((keys for keys in every if all(key in item for key in keys)), every[0])
    return {key: item[key] for key in keys if key in item}


def _stale(owned: Mapping[str, Any], desired: Any, path: str) -> Iterator[str]:
    """Paths of `owned` (a fieldsV1 tree: `f:` field, `k:` list item by keys, `v:` member of a set) that `desired` lacks."""
    for token, below in owned.items():
        kind, _, text = token.partition(":")
        if kind == "f":
            if not isinstance(desired, dict) or text not in desired:
                yield _join(path, text)
            elif below:
                yield from _stale(below, desired[text], _join(path, text))
        elif kind == "k":
            keys = _keys(text)
            item = _find(desired, keys)
            if item is None:
                yield _item(path, keys)
            elif below:
                yield from _stale(below, item, _item(path, keys))
        elif kind == "v" and (not isinstance(desired, Sequence) or json.loads(text) not in desired):
            yield f"{path}[{text}]"


def _given_up(owned: Mapping[str, Any], desired: Mapping[str, Any]) -> Iterator[str]:
    """The number of pods where it is ours again: the autoscaler that had it may have left the very number that is desired."""
    if "replicas" in desired.get("spec", {}) and "f:replicas" not in owned.get("f:spec", {}):
        yield "spec.replicas"


@functools.lru_cache(maxsize=1024)
def _keys(text: str) -> Mapping[str, Any]:
    """Of the same few lists, in every object."""
    keys: dict[str, Any] = json.loads(text)
    return keys


def _find(items: Any, wanted: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if not isinstance(items, Sequence):
        return None
    for item in items:
        if isinstance(item, dict) and all(item.get(key) == value for key, value in wanted.items()):
            return item
    return None


def _join(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field


def _item(path: str, keys: Mapping[str, Any]) -> str:
    return f"{path}[{','.join(f'{key}={value}' for key, value in keys.items())}]"
