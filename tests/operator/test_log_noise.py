import asyncio
from collections.abc import Callable

import pytest

from octavo_operator import log_noise


def failing(error: Exception) -> Callable[[], None]:
    """A callback that is called as kopf's is."""

    def stream() -> Callable[[], None]:
        def request_cancel_callback() -> None:
            raise error

        return request_cancel_callback

    return stream()


def other() -> None:
    raise AssertionError


@pytest.mark.parametrize(
    ("callback", "logged"),
    [
        pytest.param(failing(AssertionError()), 0, id="kopf's"),
        pytest.param(failing(ValueError()), 1, id="another error there"),
        pytest.param(other, 1, id="elsewhere"),
    ],
)
def test_only_kopfs_callback_is_left_out_of_the_log(
    callback: Callable[[], None], logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(log_noise.leave_out)
        loop.call_soon(callback)
        await asyncio.sleep(0)

    asyncio.run(run())
    assert len(caplog.records) == logged
