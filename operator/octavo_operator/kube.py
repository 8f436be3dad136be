"""The only module that speaks to the API server: reads, server-side apply of children and of status, patches.

Errors, by what the caller can do:

    KubeError
     ├ UnavailableError   no connection, time-out, 429, 5xx, a conflict with another writer: try again
     ├ DeniedError        401, 403: permissions, quota or an admission policy; try again, and tell people
     └ RejectedError      400, 422, and 500 for an unknown field: the object is not valid; only another object helps
"""

import contextlib
import dataclasses
import json
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from kubernetes.aio import config
from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.client.exceptions import ApiException
from kubernetes.aio.dynamic import DynamicClient
from kubernetes.aio.dynamic.resource import Resource

from octavo_operator import __version__, names
from octavo_operator.kinds import Kind
from octavo_operator.service import Key

TIMEOUT_S = 15
PAGE = 500
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"  # posted to, but a question


class KubeError(Exception):
    """A request to the API server did not do what it was for."""


class UnavailableError(KubeError):
    """The API server could not be asked, or asks to come back."""


class DeniedError(KubeError):
    """The operator may not do this, or a policy forbids it."""


class RejectedError(KubeError):
    """The API server says that the object is invalid."""


class AccessError(Exception):
    """There is no way to the API server, or it cannot be read."""


@dataclasses.dataclass(frozen=True)
class Access:
    """How the API server is reached: a kubeconfig's context, or as the pod that this runs in."""

    kubeconfig: Path | None = None
    context: str | None = None


async def configuration(access: Access) -> Configuration:
    """Address and credentials. Raises AccessError where there are none."""
    settings = Configuration()
    if access.kubeconfig is None:
        try:
            config.load_incluster_config(client_configuration=settings)
        except config.ConfigException as error:
            raise AccessError(
                f"this is no pod of a cluster ({_brief(error)}): give --kubeconfig and --context to run outside of one"
            ) from error
        return settings
    try:
        access.kubeconfig.open().close()  # the client takes a missing file for an empty one
        await config.load_kube_config(
            config_file=str(access.kubeconfig),
            context=access.context,
            client_configuration=settings,
            persist_config=False,
        )
    # A file of another form makes the client fail in whatever way it happens to.
    except (config.ConfigException, yaml.YAMLError, OSError, LookupError, TypeError, ValueError) as error:
        raise AccessError(
            f"--kubeconfig {access.kubeconfig}, context {access.context}, cannot be used ({_brief(error)}): "
            f"give a kubeconfig that has the context, its cluster and its user"
        ) from error
    return settings


def _brief(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


@contextlib.asynccontextmanager
async def connection(access: Access, may_write: Callable[[], bool] = lambda: True) -> AsyncIterator["Kube"]:
    async with ApiClient(configuration=await configuration(access)) as client:
        client.user_agent = f"octavo-operator/{__version__}"
        yield Kube(client, may_write)


class Kube:
    """Requests on behalf of the operator. `writes` counts those that changed something, by kind; `requests` all of them, by verb;
    `errors` those that failed, by HTTP status or the connection's error.

    While `may_write` says no, nothing is written: the last fence between an operator that lost its lease and its successor.
    """

    def __init__(self, client: ApiClient, may_write: Callable[[], bool] = lambda: True) -> None:
        self._client = client
        self._may_write = may_write
        # Discovery is not awaited: the few kinds are known, and its cache would need a writable disk.
        self._dynamic = DynamicClient(client)
        self.writes: dict[str, int] = {}
        self.requests: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.answered_at = time.monotonic()
        self.version = (0, 0)

    async def get(self, kind: Kind, key: Key) -> dict[str, Any] | None:
        """The live object, or None where there is none."""
        return await self._request("get", self._resource(kind).path(key.name, key.namespace))

    async def listed(
        self, kind: Kind, namespace: str | None = None, selector: str = ""
    ) -> AsyncIterator[dict[str, Any]]:
        """All live objects of a kind (of all namespaces where none is named) with the labels of `selector`, read in pages."""
        path, more = self._resource(kind).path(None, namespace), ""
        while True:
            arguments = {
                "limit": PAGE,
                **({"label_selector": selector} if selector else {}),
                **({"_continue": more} if more else {}),
            }
            page = await self._request("get", path, **arguments)
            if page is None:
                return
            for item in page["items"]:
                yield item
            more = page["metadata"].get("continue", "")
            if not more:
                return

    async def apply(self, kind: Kind, body: Mapping[str, Any], manager: str = names.FIELD_MANAGER) -> dict[str, Any]:
        """Server-side apply, taking over what others set. Returns the live object."""
        return await self._apply(kind, body, subresource="", manager=manager)

    async def annotate(self, kind: Kind, key: Key, uid: str, annotations: Mapping[str, str]) -> None:
        """Applies annotations, and nothing else, to an object that others made; UnavailableError where it is gone, or another
        manager has set one of them."""
        metadata = {"name": key.name, "namespace": key.namespace, "uid": uid, "annotations": dict(annotations)}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
        await self._patch(kind, metadata, body, content_type="application/apply-patch+yaml")

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
        """Makes the object; UnavailableError where there is one of its name."""
        metadata = body["metadata"]
        return await self._write(kind, metadata, "post", self._resource(kind).path(None, metadata["namespace"]), body)

    async def replace(self, kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
        """Writes the whole object; UnavailableError where it has changed since its resourceVersion or is gone."""
        metadata = body["metadata"]
        path = self._resource(kind).path(metadata["name"], metadata["namespace"])
        return await self._write(kind, metadata, "put", path, body)

    async def patch(self, kind: Kind, live: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]) -> None:
        """Does JSON-patch `operations` to `live`; UnavailableError where it has changed since or is gone."""
        metadata = live["metadata"]
        # Not `test`, whose failure reads as an invalid object (422); another version in the object is a conflict (409).
        unchanged = {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
        await self._patch(kind, metadata, [unchanged, *operations], content_type="application/json-patch+json")

    async def apply_status(self, kind: Kind, live: Mapping[str, Any], status: Mapping[str, Any]) -> None:
        """Applies the status of `live`; UnavailableError where it has changed since, or a namesake has taken its place."""
        metadata = {field: live["metadata"][field] for field in ("name", "namespace", "resourceVersion")}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "status": status}
        await self._apply(kind, body, subresource="/status")

    async def delete(self, kind: Kind, key: Key, uid: str) -> None:
        """Deletes the object with `uid`, and in the background what it owns. UnavailableError where another has taken its name."""
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        path = self._resource(kind).path(key.name, key.namespace)
        if await self._request("delete", path, body=body) is not None:
            _count(self.writes, kind.kind)

    async def learn_version(self) -> None:
        """Keeps `version` what the API server is now: major and minor."""
        found = await self._request("get", "/version")
        if found is not None:
            # Some providers write a minor such as `34+`.
            self.version = (int(found["major"]), int(found["minor"].rstrip("+")))

    async def may(self, verb: str, kind: Kind, namespace: str | None) -> bool:
        """Whether the API server lets this operator do `verb` to objects of `kind`, in all namespaces where none is named.

        Where it may not even ask that, which every account may by default, it is taken for allowed.
        """
        attributes = {"verb": verb, "group": kind.group, "version": kind.version, "resource": kind.plural}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {**attributes, **({"namespace": namespace} if namespace else {})}},
        }
        try:
            found = await self._request("post", _REVIEWS, body=body)
        except DeniedError:
            return True
        return bool(found and found["status"]["allowed"])

    async def serves(self, kind: Kind) -> bool:
        """Whether the API server knows `kind` (asked anew each time)."""
        return bool(await self.served([kind]))

    async def served(self, wanted: Iterable[Kind]) -> frozenset[Kind]:
        """Those of `wanted` that the API server knows, with one request for each of their groups."""
        wanted = list(wanted)
        known = {version: await self.resources(version) for version in {kind.api_version for kind in wanted}}
        return frozenset(kind for kind in wanted if kind.plural in (known[kind.api_version] or ()))

    async def resources(self, api_version: str) -> frozenset[str] | None:
        """The names of what the API server has in a version of a group; None where it knows no such thing."""
        prefix = "apis" if "/" in api_version else "api"
        found = await self._request("get", f"/{prefix}/{api_version}")
        return frozenset(resource["name"] for resource in found["resources"]) if found else None

    async def _apply(
        self, kind: Kind, body: Mapping[str, Any], subresource: str, manager: str = names.FIELD_MANAGER
    ) -> dict[str, Any]:
        return await self._patch(
            kind,
            body["metadata"],
            dict(body),
            subresource=subresource,
            field_manager=manager,
            content_type="application/apply-patch+yaml",
            force_conflicts=True,
        )

    async def _patch(
        self, kind: Kind, metadata: Mapping[str, Any], body: Any, *, subresource: str = "", **arguments: Any
    ) -> dict[str, Any]:
        path = self._resource(kind).path(metadata["name"], metadata["namespace"]) + subresource
        return await self._write(kind, metadata, "patch", path, body, **arguments)

    async def _write(
        self, kind: Kind, metadata: Mapping[str, Any], method: str, path: str, body: Any, **arguments: Any
    ) -> dict[str, Any]:
        arguments = {"field_manager": names.FIELD_MANAGER, **arguments}
        written = await self._request(method, path, body=body, **arguments)
        if written is None:
            raise UnavailableError(f"{kind.kind} {metadata['namespace']}/{metadata['name']} or its namespace is gone")
        _count(self.writes, kind.kind)
        return written

    async def _request(self, method: str, path: str, **arguments: Any) -> dict[str, Any] | None:
        """The answer's JSON, or None for 404."""
        if method != "get" and path != _REVIEWS and not self._may_write():
            raise UnavailableError(f"{method} {path}: this operator does not lead, or its lease ran out")
        _count(self.requests, method)
        try:
            answer: dict[str, Any] = await self._dynamic.request(
                method, path, serializer=lambda _, data: data, _request_timeout=TIMEOUT_S, **arguments
            )
        except ApiException as error:
            self.answered_at = time.monotonic()
            if error.status == 404:
                return None
            _count(self.errors, str(error.status))
            raise _translated(error, f"{method} {path}") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _count(self.errors, type(error).__name__)
            raise UnavailableError(f"{method} {path}: {type(error).__name__} {error}".rstrip()) from error
        self.answered_at = time.monotonic()
        return answer

    def _resource(self, kind: Kind) -> Resource:
        return Resource(
            prefix="apis" if kind.group else "api",
            group=kind.group,
            api_version=kind.version,
            kind=kind.kind,
            name=kind.plural,
            namespaced=True,
            client=self._dynamic,
        )


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def _translated(error: ApiException, request: str) -> KubeError:
    text = f"{request}: {_message(error)}"
    if error.status in (401, 403):
        return DeniedError(text)
    # A field that the kind does not have is found before the object is validated, and answered as if the server were broken.
    if error.status in (400, 422) or "field not declared in schema" in text:
        return RejectedError(_message(error))
    return UnavailableError(text)


def _message(error: ApiException) -> str:
    """The `message` of the Status object in the answer, else the HTTP reason."""
    try:
        return str(json.loads(error.body)["message"])
    except (TypeError, ValueError, KeyError):
        return f"{error.status} {error.reason}"
