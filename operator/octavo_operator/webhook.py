"""The validating admission webhook: it allows everything, and warns of what a change will do.

Certificates come from files, which whoever renews them replaces: they are read again when they change. What cannot be read or
answered costs nobody anything, since the API server goes on without the warning.
"""

import asyncio
import contextlib
import json
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from octavo_operator import advice, names, options
from octavo_operator.service import Key

logger = logging.getLogger(__name__)

PATH = "/warnings"
RELOAD_S = 10.0
_LARGEST_REVIEW_BYTES = 4 * 1024 * 1024  # two objects of etcd's limit, as text

# What runs now of a service.
Lookup = Callable[[Key], advice.Running]


@contextlib.asynccontextmanager
async def served(
    webhook: options.Webhook | None, running: Lookup, default_image: str | None
) -> AsyncIterator[int | None]:
    """Serves the webhook while the block runs; yields its port, None where there is no webhook.

    Raises FileNotFoundError or ssl.SSLError where there is no usable certificate.
    """
    if webhook is None:
        yield None
        return
    certificate = Certificate(webhook.certificates)
    runner = web.AppRunner(_application(running, default_image), access_log=None)
    await runner.setup()
    renewal = asyncio.create_task(_renew(certificate))
    try:
        await web.TCPSite(runner, port=webhook.port, ssl_context=certificate.context).start()
        # Of port 0 each address family gets a port of its own, in no order; an IPv4 address is the shorter tuple.
        yield int(min(runner.addresses, key=len)[1])
    finally:
        renewal.cancel()
        await asyncio.gather(renewal, return_exceptions=True)
        await runner.cleanup()


class Certificate:
    """`tls.crt` and `tls.key` of a folder, in a context that new connections use."""

    def __init__(self, folder: Path) -> None:
        self._files = (folder / "tls.crt", folder / "tls.key")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._known = self._content()
        self.context.load_cert_chain(*self._files)

    def renew(self) -> bool:
        """Takes up the files where they have changed; says whether it did. Raises OSError (ssl.SSLError is one)."""
        found = self._content()
        if found == self._known:
            return False
        self.context.load_cert_chain(*self._files)
        self._known = found
        return True

    def _content(self) -> tuple[bytes, ...]:
        return tuple(file.read_bytes() for file in self._files)


async def _renew(certificate: Certificate) -> None:
    while True:
        await asyncio.sleep(RELOAD_S)
        try:
            if certificate.renew():
                logger.info("the webhook's certificate has been renewed")
        except OSError as error:  # half written: the next look finds it whole
            logger.warning("the webhook's certificate cannot be read, the earlier one stays: %s", error)


def _application(running: Lookup, default_image: str | None) -> web.Application:
    async def handle(request: web.Request) -> web.Response:
        try:
            review = json.loads(await request.read())
            return web.json_response(answer(review, running, default_image))
        except (KeyError, TypeError, ValueError) as error:
            logger.warning("not an AdmissionReview: %s %s", type(error).__name__, error)
            return web.Response(status=400, text="not an AdmissionReview of an InferenceService")

    application = web.Application(client_max_size=_LARGEST_REVIEW_BYTES)
    application.router.add_post(PATH, handle)
    return application


def answer(review: Mapping[str, Any], running: Lookup, default_image: str | None) -> dict[str, Any]:
    """The AdmissionReview that answers `review`. Raises KeyError, TypeError or ValueError where it is none."""
    request = review["request"]
    response: dict[str, Any] = {"uid": request["uid"], "allowed": True}
    old, new = request.get("oldObject"), request.get("object")
    if request["kind"]["kind"] == names.KIND and old is not None and new is not None:
        key = Key(new["metadata"]["namespace"], new["metadata"]["name"])
        if warnings := advice.warnings(old, new, running(key), default_image):
            response["warnings"] = warnings
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}
