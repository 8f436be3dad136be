"""What every response says once a drain has begun: `Connection: close`, which ends the connection after it."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from octavo_runtime.server.drain import Drain

_CLOSE = (b"connection", b"close")


class TellsToLeave:
    """The application behind it, whose answers also tell clients to leave their connection while it drains."""

    def __init__(self, app: ASGIApp, drain: Drain) -> None:
        self._app = app
        self._drain = drain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start" and self._drain.phase != "serving":
                headers = message.get("headers", ())
                message = {**message, "headers": [*(pair for pair in headers if pair != _CLOSE), _CLOSE]}
            await send(message)

        await self._app(scope, receive, tell)
