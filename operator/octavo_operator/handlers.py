"""What is watched: each event only says which InferenceService to look at again.

`on.event` and indexers write nothing to the objects: no finalizer, no annotations, no progress. Optional kinds are watched while
the API server serves them, which `serve` tells: kopf itself looks only once, since it may not list CRDs.
"""

from collections.abc import Callable, Iterable, Mapping, Set
from typing import Any

import kopf

# The types of `kopf.operator`'s arguments `insights` and `indexers`, which kopf does not export.
from kopf._cogs.structs.references import Insights
from kopf._core.engines.indexing import OperatorIndexers

from octavo_operator import (
    access,
    advice,
    kinds,
    mirror,
    names,
    observed,
    projections,
    queue,
    reconcile,
    service,
    sightings,
    watches,
)
from octavo_operator.kinds import Kind

_MANAGED = f"{names.MANAGED_BY_LABEL}={names.MANAGED_BY}"
_NOWHERE = f"{names.GROUP}/on-no-object"
_VERBS = frozenset({"list", "watch", "patch"})

Body = Mapping[str, Any]


class Watch:
    """kopf's registry, settings and indexers, and the projections of pods, children and services that come of its events.

    Nothing is looked at before kopf has listed everything; the events of services, which it holds back until then, do it.
    """

    def __init__(
        self,
        keys: queue.KeyQueue[service.Key],
        to: access.Access,
        watched: watches.Watches,
        copies: mirror.Mirror,
        watch_timeout_s: float,
    ) -> None:
        self._keys = keys
        self._access = to
        self._listener = watched
        self._mirror = copies
        self._shown = projections.Projections(copies)
        self._services: sightings.Sightings[str] = sightings.Sightings()
        self._complete = False
        self._served: frozenset[Kind] = frozenset()
        self.registry = kopf.OperatorRegistry()
        self.settings = _settings(watch_timeout_s)
        self.insights = Insights(indexed_resources=_Chosen(self._follows), watched_resources=_Chosen(self._follows))
        self.indexers = _Shown(self._seen, self._gone)
        watched.listed = self._listed
        self._register()

    @property
    def watched(self) -> reconcile.Watched:
        return reconcile.Watched(
            pods_of=self._shown.pods.of,
            children_of=self._shown.children.of,
            served=lambda: self._served,
            inspections_of=self._shown.inspections.of,
            look_at=self._keys.add,
        )

    def running(self, key: service.Key) -> advice.Running:
        """What a change would restart."""
        pods = [pod for pod in self.watched.pods_of(key) if not pod.ending]
        return advice.Running(len(pods), min((pod.start_s for pod in pods if pod.start_s is not None), default=None))

    def all_pods(self) -> Mapping[service.Key, tuple[observed.PodView, ...]]:
        return self._shown.pods.all()

    def resync(self) -> None:
        """Reads and looks at every known service again, for what an event should have told and did not."""
        self._mirror.forget()
        self._look_at_all()

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
            self._mirror.forget(kind)
        self._look_at_all()

    def _follows(self, resource: kopf.Resource) -> bool:
        """Whether to watch it: all but the optional kinds that are not served, or that the operator may not watch."""
        [kind] = [kind for kind in kinds.WATCHED if (kind.group, kind.plural) == (resource.group, resource.plural)]
        return kind not in kinds.OPTIONAL or kind in self._served

    def _register(self) -> None:
        kopf.on.login(registry=self.registry)(self._login)
        for kind in kinds.WATCHED:
            resource = (kind.group, kind.version, kind.plural)
            # Only so that kopf asks the indexers: a handler that ran would cost more than all else of an event.
            kopf.index(*resource, id="shown", labels={_NOWHERE: kopf.PRESENT}, registry=self.registry)(_nothing)
        kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=self.registry)(self._service_changed)

    async def _login(self, **_: Any) -> kopf.AiohttpSession:
        """Called at the start, and whenever the API server takes the credentials no more: they are read anew."""
        settings = await access.configuration(self._access)
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

    def _listed(self, kind: Kind) -> None:
        """A watch of `kind` begins anew with a list, and what went away meanwhile is in no event."""
        self._mirror.forget(kind)
        if self._complete:
            self._look_at_all()

    def _look_at_all(self) -> None:
        for key in self._services.all():
            self._keys.add(key)

    async def _service_changed(
        self, namespace: str | None, name: str, uid: str, event: kopf.RawEvent, **_: Any
    ) -> None:
        self._complete = True
        key = _key(namespace, name)
        if event["type"] == "DELETED":
            self._services.drop(uid)
            self._mirror.gone(kinds.INFERENCE_SERVICE, key)
            self._keys.add(key)
            return
        newer, first = self._mirror.heard(kinds.INFERENCE_SERVICE, event["object"]), self._services.put(key, uid, name)
        if newer or first:
            self._keys.add(key)

    def _seen(self, live: Body) -> None:
        self._look_at(self._shown.seen(live))

    def _gone(self, live: Body) -> None:
        self._look_at(self._shown.gone(live))

    def _look_at(self, key: service.Key | None) -> None:
        if key is not None and self._complete:
            self._keys.add(key)


class _Shown(OperatorIndexers):
    """kopf's indexers are told of each object that a watch shows and of each that is gone: in the order of its events, from the
    first list on, and before any handler runs."""

    def __init__(self, seen: Callable[[Body], None], gone: Callable[[Body], None]) -> None:
        super().__init__()
        self._seen = seen
        self._gone = gone

    def replace(self, body: kopf.Body, outcomes: Any) -> None:
        self._seen(dict(body))  # kopf's view of it is slow to read

    def discard(self, body: kopf.Body) -> None:
        self._gone(dict(body))


async def _nothing(**_: Any) -> None:
    pass


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
    for kind in (*kinds.REQUIRED, *kinds.OPTIONAL, kinds.POD):
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
