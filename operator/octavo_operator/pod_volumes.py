"""What a pod's volumes need that others make: a pod waits without a word where one of it is missing. Pure.

The operator may not read Secrets, so it cannot say which is missing, only which are needed.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from octavo_operator.unchecked import mapping, mappings

Body = Mapping[str, Any]

# Of every namespace, in the volume with the token of a pod's service account.
_EVERYWHERE = "kube-root-ca.crt"


def needed(spec: Body) -> list[str]:
    """Objects that have to be there before the containers of a pod with that spec start, as people call them, sorted."""
    return sorted({text for volume in mappings(spec.get("volumes")) for text in _of_volume(volume)})


def _of_volume(volume: Body) -> Iterator[str]:
    if claim := mapping(volume.get("persistentVolumeClaim")).get("claimName"):
        yield f"the claim {claim}"
    sources = [volume, *mappings(mapping(volume.get("projected")).get("sources"))]
    for kind, field in (("Secret", "secret"), ("ConfigMap", "configMap")):
        for source in (mapping(each.get(field)) for each in sources):
            name = source.get("secretName") or source.get("name")
            if name and name != _EVERYWHERE and not source.get("optional"):
                yield f"the {kind} {name}{_keys(mappings(source.get('items')))}"


def _keys(items: Iterable[Body]) -> str:
    keys = [str(item.get("key", "")) for item in items]
    return f" with the key{'s' if len(keys) > 1 else ''} {', '.join(keys)}" if keys else ""
