"""One request to the API server and its answer, both JSON, by the Kubernetes client's connections and credentials.

The client's own ways to ask copy headers, query and body several times over on the way, which costs more than all else of a small
request; this goes to its lowest layer, which keeps TLS, proxies and pooled connections.
"""

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client import ApiClient

TIMEOUT = aiohttp.ClientTimeout(total=15)
_AUTH = ["BearerToken"]


class AnswerError(Exception):
    """The API server answered with an HTTP status that is no success, or with no JSON; the text is what it says."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Transport:
    def __init__(self, client: ApiClient) -> None:
        self._client = client
        self._host = client.configuration.host

    async def request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str],
        body: Any = None,
        content_type: str = "application/json",
    ) -> Any:
        """The answer's JSON. Raises AnswerError, and aiohttp's errors where there is no answer."""
        headers = {**self._client.default_headers, "Accept": "application/json", "Content-Type": content_type}
        # Asked at each request, since tokens are renewed.
        await self._client.update_params_for_auth(headers, [], _AUTH, path, method, body)
        url = f"{self._host}{path}?{urlencode(query)}" if query else f"{self._host}{path}"
        response = await self._client.rest_client.request(
            method, url, headers=headers, body=body, _request_timeout=TIMEOUT
        )
        text = await response.read()
        if not 200 <= response.status <= 299:
            raise AnswerError(response.status, _message(text) or f"{response.status} {response.reason}")
        try:
            return json.loads(text)
        except ValueError as error:
            raise AnswerError(response.status, f"no JSON but {text[:80]!r}, as of something in between") from error


def _message(text: bytes) -> str:
    """The `message` of the Status object in an answer; empty where there is none."""
    try:
        return str(json.loads(text)["message"])
    except (TypeError, ValueError, KeyError):
        return ""
