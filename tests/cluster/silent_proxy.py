"""A TCP proxy whose connections can fall silent without being closed, as behind a firewall that forgot them."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.access import Access


class SilentProxy:
    """Forwards to `target`. After `hush` nothing that was open is heard of again; after `deafen` nothing at all, until `listen`."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._server = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._age = 0  # connections of an earlier age are silent
        self._deaf = False

    @property
    def port(self) -> int:
        port: int = self._server.getsockname()[1]
        return port

    def hush(self) -> None:
        self._age += 1

    def deafen(self) -> None:
        self._deaf = True
        self.hush()

    def listen(self) -> None:
        self._deaf = False

    def run(self) -> None:
        """Takes connections until `close`."""
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._server.accept()
                self._sockets.append(client)
                if not self._deaf:
                    self._connect(client)

    def close(self) -> None:
        for one in (self._server, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _connect(self, client: socket.socket) -> None:
        server = socket.create_connection(self._target)
        self._sockets.append(server)
        for source, sink in ((client, server), (server, client)):
            threading.Thread(target=self._pump, args=(source, sink, self._age), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, age: int) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if age == self._age:
                    sink.sendall(data)
            if age == self._age:
                sink.shutdown(socket.SHUT_WR)


@contextmanager
def proxied(access: Access, folder: Path) -> Iterator[tuple[SilentProxy, Path]]:
    """A proxy to the API server of `access`, and a kubeconfig by which it is reached through it."""
    config: dict[str, Any] = yaml.safe_load(access.kubeconfig.read_text())
    [cluster] = config["clusters"]
    host, _, port = cluster["cluster"]["server"].removeprefix("https://").partition(":")
    proxy = SilentProxy((host, int(port)))
    # The API server's certificate names this machine's loopback address too.
    cluster["cluster"]["server"] = f"https://127.0.0.1:{proxy.port}"
    file = folder / "proxied.kubeconfig"
    file.write_text(yaml.safe_dump(config))
    thread = threading.Thread(target=proxy.run, daemon=True)
    thread.start()
    try:
        yield proxy, file
    finally:
        proxy.close()
        thread.join(10.0)
