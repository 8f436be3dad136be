import socket

import pytest

from octavo_runtime.config import ConfigError
from octavo_runtime.server.listener import listen


def test_a_port_that_is_taken_asks_for_another_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--host 127.0.0.1 --port {port}: .*; give another --port$"):
            listen("127.0.0.1", port)


@pytest.mark.parametrize(
    "host", [pytest.param("nohost.invalid", id="no such name"), pytest.param("192.0.2.1", id="another machine's")]
)
def test_a_host_that_cannot_be_asks_for_another_host(host: str) -> None:
    with pytest.raises(ConfigError, match=f"--host {host} --port 8000: .*; give another --host$"):
        listen(host, 8000)
