"""What the event loop logs as an error and is none.

Where the operator ends while kopf opens a watch anew, as it does for as long as the API server is away, kopf's callback for a watch
that is paused runs outside of any task, and asserts that it is in one. The task that it would cancel has been cancelled already.
"""

import asyncio
from typing import Any

_OF_KOPF = "stream.<locals>.request_cancel_callback"


def leave_out(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """The loop's handler of exceptions that nobody catches: all but that one are logged as ever."""
    if not (isinstance(context.get("exception"), AssertionError) and _OF_KOPF in repr(context.get("handle"))):
        loop.default_exception_handler(context)
