"""The header `x-request-id` of every response, for whoever reports it: the answer's own id where it has one, else one made here."""

import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = "x-request-id"
_RAW = HEADER.encode()


def fresh_id() -> str:
    """Of a request that was not given to the engine."""
    return f"req-{uuid.uuid4().hex}"


class NamesRequests:
    """The application behind it, whose responses without an id get one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def name(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = list(message.get("headers", ()))
                if not any(given == _RAW for given, _ in headers):
                    message = {**message, "headers": [*headers, (_RAW, fresh_id().encode())]}
            await send(message)

        await self._app(scope, receive, name)
