"""What is watched: each event only says which InferenceService to look at again.

`on.event` and `index` write nothing to the objects: no finalizer, no annotations, no progress.
"""

from collections.abc import Mapping
from typing import Any

import kopf

from octavo_operator import kube, names, observed, queue, service

_MANAGED = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY}"
_CHILDREN = (("apps", "v1", "deployments"), ("", "v1", "services"), ("", "v1", "pods"))


class Watch:
    """The kopf handlers, their settings, and the projections of pods and services that they keep."""

    def __init__(self, keys: queue.KeyQueue[service.Key], access: kube.Access) -> None:
        self._keys = keys
        self._access = access
        self._pods: Mapping[service.Key, Any] = {}
        self._services: Mapping[service.Key, Any] = {}
        self.registry = kopf.OperatorRegistry()
        self.settings = _settings()
        self._register()

    def pods_of(self, key: service.Key) -> tuple[observed.PodView, ...]:
        return tuple(self._pods.get(key, ()))

    def resync(self) -> None:
        """Looks at every known service again, for what an event should have told and did not."""
        for key in list(self._services):
            self._keys.add(key)

    def _register(self) -> None:
        kopf.on.login(registry=self.registry)(self._login)
        kopf.on.startup(registry=self.registry)(self._keep_indices)
        kopf.index(names.GROUP, names.VERSION, names.PLURAL, id="services", registry=self.registry)(_service_key)
        kopf.index("", "v1", "pods", id="pods", registry=self.registry)(_pod)
        kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=self.registry)(self._service_changed)
        for group, version, plural in _CHILDREN:
            kopf.on.event(group, version, plural, registry=self.registry)(self._child_changed)

    async def _login(self, **_: Any) -> kopf.ConnectionInfo:
        settings = await kube.configuration(self._access)
        scheme, _, token = settings.api_key.get("BearerToken", "").partition(" ")
        return kopf.ConnectionInfo(
            server=settings.host,
            ca_path=settings.ssl_ca_cert,
            insecure=not settings.verify_ssl,
            certificate_path=settings.cert_file,
            private_key_path=settings.key_file,
            scheme=scheme.capitalize() or None,
            token=token or None,
        )

    async def _keep_indices(self, **indices: Any) -> None:
        # kopf fills them before the first event is handled, and keeps them current.
        self._pods, self._services = indices["pods"], indices["services"]

    async def _service_changed(self, namespace: str | None, name: str, **_: Any) -> None:
        self._keys.add(_key(namespace, name))

    async def _child_changed(self, namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
        if names.SERVICE_LABEL in labels:
            self._keys.add(_key(namespace, labels[names.SERVICE_LABEL]))


def _key(namespace: str | None, name: str) -> service.Key:
    assert namespace is not None, "all that is watched is namespaced"
    return service.Key(namespace, name)


def _settings() -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = True
    settings.watching.chunk_size = 500
    for group, version, plural in _CHILDREN:
        settings.watching.label_selectors[group, version, plural] = _MANAGED
    return settings


async def _service_key(namespace: str | None, name: str, **_: Any) -> dict[service.Key, None]:
    return {_key(namespace, name): None}


async def _pod(
    namespace: str | None, labels: Mapping[str, str], body: kopf.Body, **_: Any
) -> dict[service.Key, observed.PodView] | None:
    if names.SERVICE_LABEL not in labels:
        return None
    return {_key(namespace, labels[names.SERVICE_LABEL]): observed.pod_view(body)}
