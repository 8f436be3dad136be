"""What is mounted into the runtime's container because a field asks for it: a volume, where, and flags that tell the runtime. Pure.

The inspection of a model mounts what concerns its source in the same way.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator import names
from octavo_operator.service import Service
from octavo_operator.spec.model import Cache
from octavo_operator.spec.secrets import SecretKey

Flags = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Attachment:
    """`volume` is a pod's volume without its name. `shared`: its files are for a group that the pod has to be in to write them."""

    name: str
    volume: Mapping[str, Any]
    path: str
    flags: Flags = dataclasses.field(default_factory=dict)
    read_only: bool = True
    shared: bool = False

    @property
    def as_volume(self) -> dict[str, Any]:
        return {"name": self.name, **self.volume}

    @property
    def as_mount(self) -> dict[str, Any]:
        return {"name": self.name, "mountPath": self.path, **({"readOnly": True} if self.read_only else {})}


def of_pod(service: Service) -> list[Attachment]:
    """Of a pod that serves."""
    return [*of_source(service), *_disk_tier(service), *_warmup_manifest(service), *_api_keys(service.api_keys)]


def flags(service: Service) -> dict[str, str]:
    """Those of `octavo serve` that say what is mounted where."""
    return {name: value for attachment in of_pod(service) for name, value in attachment.flags.items()}


def of_source(service: Service) -> list[Attachment]:
    """What the model's files are read with, by a pod that serves or that inspects them."""
    return [*_source(service), *_hub_token(service.model.token), *_cache(service)]


def group_settings(attached: list[Attachment]) -> dict[str, Any]:
    """Of the pod's securityContext: claims are mounted writable for the runtime's group, where any is written to."""
    if not any(attachment.shared for attachment in attached):
        return {}
    return {"fsGroup": names.RUNTIME_USER, "fsGroupChangePolicy": "OnRootMismatch"}


def _source(service: Service) -> list[Attachment]:
    source = service.model.source
    if source.claim is not None:
        volume: dict[str, Any] = {"persistentVolumeClaim": {"claimName": source.claim, "readOnly": True}}
    elif source.image is not None:
        volume = {"image": {"reference": source.image}}
    else:
        return []
    return [Attachment("model", volume, names.MODEL_DIR)]


def _hub_token(token: SecretKey | None) -> list[Attachment]:
    if token is None:
        return []
    file = "token"
    return [_secret("hub-token", token, names.HUB_TOKEN_DIR, file, {"hub-token-file": f"{names.HUB_TOKEN_DIR}/{file}"})]


def _cache(service: Service) -> list[Attachment]:
    cache = service.model.cache
    if cache is None:
        return []
    flags = {}
    if service.model.source.hub is not None:
        flags["model-cache"] = f"{names.CACHE_DIR}/models"
    if service.device == "cpu" and cache.lasts:
        flags["weights-cache"] = f"{names.CACHE_DIR}/weights"
    shared = cache.claim is not None
    return [Attachment("cache", _cache_volume(cache), names.CACHE_DIR, flags, read_only=False, shared=shared)]


def _cache_volume(cache: Cache) -> dict[str, Any]:
    if cache.claim is not None:
        return {"persistentVolumeClaim": {"claimName": cache.claim}}
    if cache.host_path is not None:
        return {"hostPath": {"path": cache.host_path, "type": "DirectoryOrCreate"}}
    return {"emptyDir": {"sizeLimit": cache.size_limit} if cache.size_limit else {}}


def _disk_tier(service: Service) -> list[Attachment]:
    size = service.runtime.kv_cache.disk_tier
    if size is None:
        return []
    flags = {"kv-tier-disk": names.DISK_TIER_DIR, "kv-tier-disk-size": size}
    return [Attachment("kv-tier", {"emptyDir": {}}, names.DISK_TIER_DIR, flags, read_only=False)]


def _warmup_manifest(service: Service) -> list[Attachment]:
    config_map = service.runtime.warmup.manifest
    if config_map is None:
        return []
    volume = {"configMap": {"name": config_map, "optional": True}}
    flags = {"warmup-manifest": f"{names.WARMUP_DIR}/{names.WARMUP_FILE}"}
    return [Attachment("warmup", volume, names.WARMUP_DIR, flags)]


def _api_keys(keys: SecretKey | None) -> list[Attachment]:
    if keys is None:
        return []
    return [_secret("api-keys", keys, names.API_KEYS_DIR, "keys", {"api-key-file": f"{names.API_KEYS_DIR}/keys"})]


def _secret(name: str, secret: SecretKey, path: str, file: str, flags: Flags) -> Attachment:
    """One key as a file of a folder, which the kubelet renews when the Secret changes (a mounted file it would not)."""
    volume = {"secret": {"secretName": secret.name, "items": [{"key": secret.key, "path": file}]}}
    return Attachment(name, volume, path, flags)
