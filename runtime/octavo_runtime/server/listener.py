"""The two ports: uvicorn under our signals and drain, and the health port; a port that is taken is an error that names the flag."""

import contextlib
import errno
import socket
from collections.abc import Generator

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.server.drain import Client
from octavo_runtime.server.health_server import Answering, HealthServer

KEEP_ALIVE_S = 75  # longer than load balancers keep idle connections, so that they close first


class HttpServer(uvicorn.Server):
    """Signals are ours: uvicorn would end streams that a drain still waits for."""

    def __init__(self, app: FastAPI) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=1,
                server_header=False,
            )
        )

    def connected(self) -> frozenset[Client]:
        """Where the open connections come from."""
        found = [connection.client for connection in self._connections()]
        return frozenset((host, port) for host, port in filter(None, found) if port is not None)

    def leave_connections(self) -> None:
        """Ends idle connections now and busy ones after their answer."""
        for connection in self._connections():
            connection.shutdown()

    def _connections(self) -> list[H11Protocol]:
        return [connection for connection in self.server_state.connections if isinstance(connection, H11Protocol)]

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def health_server(config: ServeConfig, probes: Answering) -> HealthServer:
    try:
        return HealthServer(config.host, config.health_port, probes)
    except OSError as error:
        raise _refused(f"--host {config.host} --health-port {config.health_port}", "--health-port", error) from error


def listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise _refused(f"--host {host} --port {port}", "--port", error) from error


def _refused(flags: str, port_flag: str, error: OSError) -> ConfigError:
    """Another port helps only where the port is what is wrong: taken, or reserved for the administrator."""
    remedy = port_flag if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host"
    return ConfigError(f"{flags}: {error.strerror}; give another {remedy}")
