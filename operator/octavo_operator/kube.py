"""The only module that speaks to the API server: reads, server-side apply of children and of status, patches.

Errors, by what the caller can do:

    KubeError
     ├ UnavailableError   no connection, time-out, 429, 5xx, a conflict with another writer: try again
     ├ DeniedError        401, 403: permissions, quota or an admission policy; try again, and tell people
     └ RejectedError      400, 422, and 500 for an unknown field: the object is not valid; only another object helps
"""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

import aiohttp
from kubernetes.aio.client import ApiClient

from octavo_operator import __version__, access, names
from octavo_operator.kinds import Kind
from octavo_operator.service import Key
from octavo_operator.transport import AnswerError, Transport

PAGE = 500
_APPLY = "application/apply-patch+yaml"
_AS_OURS = {"fieldManager": names.FIELD_MANAGER}
_NO_QUERY: Mapping[str, str] = {}
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"  # posted to, but a question


class KubeError(Exception):
    """A request to the API server did not do what it was for."""


class UnavailableError(KubeError):
    """The API server could not be asked, or asks to come back."""


class DeniedError(KubeError):
    """The operator may not do this, or a policy forbids it."""


class RejectedError(KubeError):
    """The API server says that the object is invalid."""


@contextlib.asynccontextmanager
async def connection(to: access.Access, may_write: Callable[[], bool] = lambda: True) -> AsyncIterator["Kube"]:
    async with ApiClient(configuration=await access.configuration(to)) as client:
        client.user_agent = f"octavo-operator/{__version__}"
        yield Kube(client, may_write)


class Kube:
    """Requests on behalf of the operator. `writes` counts those that changed something, by kind; `requests` all of them, by verb;
    `errors` those that failed, by HTTP status or the connection's error.

    While `may_write` says no, nothing is written: the last fence between an operator that lost its lease and its successor.
    """

    def __init__(self, client: ApiClient, may_write: Callable[[], bool] = lambda: True) -> None:
        self._transport = Transport(client)
        self._may_write = may_write
        self.writes: dict[str, int] = {}
        self.requests: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        self.answered_at = time.monotonic()
        self.version = (0, 0)

    async def get(self, kind: Kind, key: Key) -> dict[str, Any] | None:
        """The live object, or None where there is none."""
        return await self._request("get", _path(kind, key.namespace, key.name))

    async def listed(
        self, kind: Kind, namespace: str | None = None, selector: str = ""
    ) -> AsyncIterator[dict[str, Any]]:
        """All live objects of a kind (of all namespaces where none is named) with the labels of `selector`, read in pages."""
        path, more = _path(kind, namespace), ""
        while True:
            query = {
                "limit": str(PAGE),
                **({"labelSelector": selector} if selector else {}),
                **({"continue": more} if more else {}),
            }
            page = await self._request("get", path, query)
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
        await self._patch(kind, metadata, "", body, _APPLY)

    async def create(self, kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
        """Makes the object; UnavailableError where there is one of its name."""
        metadata = body["metadata"]
        path = _path(kind, metadata["namespace"])
        return self._written(kind, metadata, await self._request("post", path, _AS_OURS, body))

    async def replace(self, kind: Kind, body: Mapping[str, Any]) -> dict[str, Any]:
        """Writes the whole object; UnavailableError where it has changed since its resourceVersion or is gone."""
        metadata = body["metadata"]
        path = _path(kind, metadata["namespace"], metadata["name"])
        return self._written(kind, metadata, await self._request("put", path, _AS_OURS, body))

    async def patch(self, kind: Kind, live: Mapping[str, Any], operations: Sequence[Mapping[str, Any]]) -> None:
        """Does JSON-patch `operations` to `live`; UnavailableError where it has changed since or is gone."""
        metadata = live["metadata"]
        # Not `test`, whose failure reads as an invalid object (422); another version in the object is a conflict (409).
        unchanged = {"op": "replace", "path": "/metadata/resourceVersion", "value": metadata["resourceVersion"]}
        await self._patch(kind, metadata, "", [unchanged, *operations], "application/json-patch+json")

    async def apply_status(self, kind: Kind, live: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any]:
        """Applies the status of `live`, and returns the whole; UnavailableError where it has changed since, or a namesake has taken
        its place."""
        metadata = {field: live["metadata"][field] for field in ("name", "namespace", "resourceVersion")}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "status": status}
        return await self._apply(kind, body, subresource="/status")

    async def delete(self, kind: Kind, key: Key, uid: str) -> None:
        """Deletes the object with `uid`, and in the background what it owns. UnavailableError where another has taken its name."""
        body = {"preconditions": {"uid": uid}, "propagationPolicy": "Background"}
        path = _path(kind, key.namespace, key.name)
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
        query = {"fieldManager": manager, "force": "true"}
        return await self._patch(kind, body["metadata"], subresource, body, _APPLY, query)

    async def _patch(
        self,
        kind: Kind,
        metadata: Mapping[str, Any],
        subresource: str,
        body: Any,
        content_type: str,
        query: Mapping[str, str] = _AS_OURS,
    ) -> dict[str, Any]:
        path = _path(kind, metadata["namespace"], metadata["name"]) + subresource
        return self._written(kind, metadata, await self._request("patch", path, query, body, content_type))

    def _written(self, kind: Kind, metadata: Mapping[str, Any], answer: dict[str, Any] | None) -> dict[str, Any]:
        if answer is None:
            raise UnavailableError(f"{kind.kind} {metadata['namespace']}/{metadata['name']} or its namespace is gone")
        _count(self.writes, kind.kind)
        return answer

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] = _NO_QUERY,
        body: Any = None,
        content_type: str = "application/json",
    ) -> dict[str, Any] | None:
        """The answer's JSON, or None for 404."""
        if method != "get" and path != _REVIEWS and not self._may_write():
            raise UnavailableError(f"{method} {path}: this operator does not lead, or its lease ran out")
        _count(self.requests, method)
        try:
            answer: dict[str, Any] = await self._transport.request(method, path, query, body, content_type)
        except AnswerError as error:
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


def _path(kind: Kind, namespace: str | None, name: str = "") -> str:
    """Of all objects of the kind where no name is given, in all namespaces where none is."""
    root = f"/apis/{kind.api_version}" if kind.group else f"/api/{kind.version}"
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{root}{within}/{kind.plural}" + (f"/{quote(name, safe='')}" if name else "")


def _count(counts: dict[str, int], name: str) -> None:
    counts[name] = counts.get(name, 0) + 1


def _translated(error: AnswerError, request: str) -> KubeError:
    text = f"{request}: {error}"
    if error.status in (401, 403):
        return DeniedError(text)
    # A field that the kind does not have is found before the object is validated, and answered as if the server were broken.
    if error.status in (400, 422) or "field not declared in schema" in text:
        return RejectedError(str(error))
    return UnavailableError(text)
