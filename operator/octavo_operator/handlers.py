"""What is watched: each event only says which InferenceService to look at again.

`on.event` and `index` write nothing to the objects: no finalizer, no annotations, no progress. Optional kinds are watched while
the API server serves them, which `serve` tells: kopf itself looks only once, since it may not list CRDs.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import kopf

# The type of `kopf.operator`'s argument `insights`, which kopf does not export.
from kopf._cogs.structs.references import Insights

from octavo_operator import advice, kinds, kube, names, observed, queue, reconcile, service, watches
from octavo_operator.fitting import inspections
from octavo_operator.kinds import Kind

_MANAGED = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY}"
_CHILDREN = (*kinds.REQUIRED, *kinds.OPTIONAL)
_VERBS = frozenset({"list", "watch", "patch"})


class Watch:
    """The kopf handlers, their settings, and the projections of pods, children and services that they keep."""

    def __init__(
        self,
        keys: queue.KeyQueue[service.Key],
        access: kube.Access,
        watched: watches.Watches,
        watch_timeout_s: float,
    ) -> None:
        self._keys = keys
        self._access = access
        self._listener = watched
        self._pods: Mapping[service.Key, Any] = {}
        self._children: Mapping[service.Key, Any] = {}
        self._inspections: Mapping[service.Key, Any] = {}
        self._services: Mapping[service.Key, Any] = {}
        self._served: frozenset[Kind] = frozenset()
        self.registry = kopf.OperatorRegistry()
        self.settings = _settings(watch_timeout_s)
        self.insights = Insights(indexed_resources=_Chosen(self._follows), watched_resources=_Chosen(self._follows))
        self._register()

    @property
    def watched(self) -> reconcile.Watched:
        return reconcile.Watched(
            pods_of=lambda key: tuple(self._pods.get(key, ())),
            children_of=lambda key: tuple(self._children.get(key, ())),
            served=lambda: self._served,
            inspections_of=lambda key: tuple(self._inspections.get(key, ())),
        )

    def running(self, key: service.Key) -> advice.Running:
        """What a change would restart."""
        pods = [pod for pod in self.watched.pods_of(key) if not pod.ending]
        return advice.Running(len(pods), min((pod.start_s for pod in pods if pod.start_s is not None), default=None))

    def all_pods(self) -> dict[service.Key, tuple[observed.PodView, ...]]:
        return {key: tuple(self._pods[key]) for key in self._pods}

    def resync(self) -> None:
        """Looks at every known service again, for what an event should have told and did not."""
        for key in list(self._services):
            self._keys.add(key)

    async def serve(self, served: Set[Kind]) -> None:
        """Watches exactly those optional kinds from now on; every service is looked at again where they are others than before."""
        come, gone = served - self._served, self._served - served
        if not come and not gone:
            return
        self._served = frozenset(served)
        async with self.insights.revised:
            for resources in (self.insights.indexed_resources, self.insights.watched_resources):
                resources.update(map(_resource, come))
                resources.difference_update(map(_resource, gone))
            self.insights.revised.notify_all()
        for kind in gone:
            self._listener.forget(kind)
        self.resync()

    def _follows(self, resource: kopf.Resource) -> bool:
        """Whether to watch it: all but the optional kinds that are not served, or that the operator may not watch."""
        [kind] = [kind for kind in kinds.WATCHED if (kind.group, kind.plural) == (resource.group, resource.plural)]
        return kind not in kinds.OPTIONAL or kind in self._served

    def _register(self) -> None:
        kopf.on.login(registry=self.registry)(self._login)
        kopf.on.startup(registry=self.registry)(self._keep_indices)
        kopf.index(names.GROUP, names.VERSION, names.PLURAL, id="services", registry=self.registry)(_service_key)
        kopf.index("", "v1", "pods", id="pods", registry=self.registry)(_pod)
        kopf.index("", "v1", "pods", id="inspections", registry=self.registry)(_inspection)
        kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=self.registry)(self._service_changed)
        for kind in (*_CHILDREN, kinds.POD):
            kopf.on.event(kind.group, kind.version, kind.plural, registry=self.registry)(self._child_changed)
        for kind in _CHILDREN:
            kopf.index(kind.group, kind.version, kind.plural, id="children", registry=self.registry)(_child)

    async def _login(self, **_: Any) -> kopf.AiohttpSession:
        """Called at the start, and whenever the API server takes the credentials no more: they are read anew."""
        settings = await kube.configuration(self._access)
        scheme, _, token = settings.api_key.get("BearerToken", "").partition(" ")
        credentials = kopf.ConnectionInfo(
            server=settings.host,
            ca_path=settings.ssl_ca_cert,
            insecure=not settings.verify_ssl,
            certificate_path=settings.cert_file,
            private_key_path=settings.key_file,
            scheme=scheme.capitalize() or None,
            token=token or None,
        )
        session = self._listener.session(credentials.as_ssl_context(), credentials.as_http_headers())
        return kopf.AiohttpSession(server=settings.host, aiohttp_session=session)

    async def _keep_indices(self, **indices: Any) -> None:
        # kopf fills them before the first event is handled, and keeps them current.
        self._pods, self._services, self._children = indices["pods"], indices["services"], indices["children"]
        self._inspections = indices["inspections"]

    async def _service_changed(self, namespace: str | None, name: str, **_: Any) -> None:
        self._keys.add(_key(namespace, name))

    async def _child_changed(self, namespace: str | None, labels: Mapping[str, str], **_: Any) -> None:
        if of := labels.get(names.SERVICE_LABEL, labels.get(names.INSPECTS_LABEL)):
            self._keys.add(_key(namespace, of))


def _key(namespace: str | None, name: str) -> service.Key:
    assert namespace is not None, "all that is watched is namespaced"
    return service.Key(namespace, name)


def _resource(kind: Kind) -> kopf.Resource:
    return kopf.Resource(
        group=kind.group, version=kind.version, plural=kind.plural, kind=kind.kind, namespaced=True, verbs=_VERBS
    )


def _settings(watch_timeout_s: float) -> kopf.OperatorSettings:
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.scanning.disabled = True
    settings.watching.chunk_size = 500
    settings.watching.inactivity_timeout = watch_timeout_s
    # A connection that is accepted and never answered would be waited for as long as kopf lives.
    settings.watching.connect_timeout = watch_timeout_s
    for kind in (*_CHILDREN, kinds.POD):
        settings.watching.label_selectors[kind.group, kind.version, kind.plural] = _MANAGED
    return settings


class _Chosen(set[kopf.Resource]):
    """kopf adds what it finds served by itself when it starts, and would wait for ever for a list that it may not have."""

    def __init__(self, follows: Callable[[kopf.Resource], bool]) -> None:
        super().__init__()
        self._follows = follows

    def update(self, *found: Iterable[kopf.Resource]) -> None:
        super().update(resource for resources in found for resource in resources if self._follows(resource))


class _NoDiffs(kopf.DiffBaseStorage):
    """kopf copies each event's object three times over to find what changed in it, which nothing here asks: half of its time."""

    def build(self, **_: Any) -> kopf.BodyEssence:
        return kopf.BodyEssence()

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return None


async def _service_key(namespace: str | None, name: str, **_: Any) -> dict[service.Key, None]:
    return {_key(namespace, name): None}


async def _pod(
    namespace: str | None, labels: Mapping[str, str], body: kopf.Body, **_: Any
) -> dict[service.Key, observed.PodView] | None:
    if names.SERVICE_LABEL not in labels:
        return None
    return {_key(namespace, labels[names.SERVICE_LABEL]): observed.pod_view(body)}


async def _inspection(
    namespace: str | None, labels: Mapping[str, str], body: kopf.Body, **_: Any
) -> dict[service.Key, inspections.InspectionView] | None:
    if names.INSPECTS_LABEL not in labels:
        return None
    return {_key(namespace, labels[names.INSPECTS_LABEL]): inspections.view(body)}


async def _child(
    namespace: str | None, labels: Mapping[str, str], body: kopf.Body, resource: kopf.Resource, **_: Any
) -> dict[service.Key, observed.ChildView] | None:
    [kind] = [kind for kind in _CHILDREN if (kind.group, kind.plural) == (resource.group, resource.plural)]
    if names.SERVICE_LABEL not in labels:
        return None
    return {_key(namespace, labels[names.SERVICE_LABEL]): observed.child_view(kind, body)}
