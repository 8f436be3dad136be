"""The API process: from a configuration to a listening server, and to its end.

The engine process was started before this module (and the libraries it needs) was imported; both get ready at the same time.
"""

import asyncio
import logging
import signal
import subprocess
import time
from pathlib import Path

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.server.api_keys import ApiKeys
from octavo_runtime.server.app import build_app
from octavo_runtime.server.control import ControlSocket
from octavo_runtime.server.drain import Drain, Pace
from octavo_runtime.server.engine_client import EngineClient, engine_endpoint
from octavo_runtime.server.gauges import Snapshot
from octavo_runtime.server.health_server import HealthServer
from octavo_runtime.server.in_flight import requests_in_flight
from octavo_runtime.server.listener import HttpServer, health_server, listen
from octavo_runtime.server.metrics import Metrics, SnapshotCollector
from octavo_runtime.server.phase_report import PhaseReport
from octavo_runtime.server.probes import Loop, Probes
from octavo_runtime.server.service import Service
from octavo_runtime.server.supervisor import EngineStartError, Supervisor
from octavo_runtime.server.tenants import Tenants
from octavo_runtime.source.reference import unreadable
from octavo_runtime.text import model_text

log = logging.getLogger("octavo")

TICK_S = 0.5
FORCED_EXIT_CODE = 1


async def serve(
    config: ServeConfig,
    engine: "subprocess.Popen[bytes]",
    run_dir: Path,
    heartbeat: Heartbeat,
    health: HealthServer | None = None,
) -> int:
    """Serve until a signal or the engine's failure to start; the exit code. `health`: the port, where it is open already.

    Raises ConfigError.
    """
    server = _Server(config, engine, run_dir, heartbeat)
    return await server.run(health)


class _Server:
    def __init__(
        self, config: ServeConfig, engine: "subprocess.Popen[bytes]", run_dir: Path, heartbeat: Heartbeat
    ) -> None:
        self._config = config
        self._heartbeat = heartbeat
        self._loop_state = Loop()
        metrics = Metrics(config.model_name, SnapshotCollector(config.model_name, self._snapshot))
        client = EngineClient(engine_endpoint(run_dir), metrics.step)
        text = _load_text(config.model_path)
        keys = ApiKeys(config.api_key_file) if config.api_key_file is not None else None
        self._service = Service(config, text, client, Drain(), Pace(), metrics, Tenants.of(config), keys)
        self._supervisor = Supervisor(config, engine, client, heartbeat, metrics.engine_restarted)
        self._probes = Probes(self._service, self._supervisor, heartbeat, self._loop_state)
        self._control = ControlSocket(run_dir, self._service.drain, self._service.pace)
        self._signals = 0
        self._stop = asyncio.Event()
        self._forced = False
        self._draining: asyncio.Task[None] | None = None

    async def run(self, health: HealthServer | None) -> int:
        if health is None:
            health = health_server(self._config, self._probes)
            health.start()
        health.probes = self._probes
        listener = listen(self._config.host, self._config.port)
        http = HttpServer(build_app(self._service, self._probes))
        self._service.drain.connected = http.connected
        await self._control.start()
        self._catch_signals()
        supervising = asyncio.create_task(self._supervisor.run())
        serving = asyncio.create_task(http.serve(sockets=[listener]))
        ticking = asyncio.create_task(self._tick(http))
        stopping = asyncio.create_task(self._stop.wait())
        try:
            await asyncio.wait({supervising, serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            http.leave_connections()  # at once when nothing is in flight: without an engine no request would be answered
            await self._supervisor.stop()  # streams that a drain could not wait for end with an error event
            await asyncio.gather(supervising, return_exceptions=True)
            http.should_exit = True
            http.force_exit = self._forced
            await serving
            ticking.cancel()
            stopping.cancel()
            self._service.engine.close()
            await self._control.stop()
            health.stop()
        return self._exit_code(supervising.exception())

    def _exit_code(self, error: BaseException | None) -> int:
        """`error` is what supervising the engine ended with. Logged last, for the last line is what people are shown."""
        if error is None:
            return FORCED_EXIT_CODE if self._forced else 0
        if not isinstance(error, EngineStartError):
            raise error
        log.error("%s", error)
        return 1

    def _catch_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number, settle_s in ((signal.SIGTERM, self._config.drain_settle), (signal.SIGINT, 0.0)):
            loop.add_signal_handler(number, self._on_signal, settle_s)

    def _on_signal(self, settle_s: float) -> None:
        """The first signal drains, the second ends at once."""
        self._signals += 1
        if self._signals == 1:
            self._draining = asyncio.create_task(self._drain_and_stop(settle_s))
        else:
            log.warning("second signal: ending at once, %s", requests_in_flight(self._service.drain.in_flight))
            self._forced = True
            self._stop.set()

    async def _drain_and_stop(self, settle_s: float) -> None:
        drain, timeout_s = self._service.drain, self._config.drain_timeout
        log.info("draining for up to %g s: %s", timeout_s, requests_in_flight(drain.in_flight))
        if not await drain.run(settle_s, timeout_s):
            log.warning("after %g s: ending %s", timeout_s, requests_in_flight(drain.in_flight))
        self._stop.set()

    async def _tick(self, http: HttpServer) -> None:
        """Show that the loop moves, sample once a second, and log how start-up goes."""
        report, next_sample_s = PhaseReport(self._config), 0.0
        while True:
            now_s = self._loop_state.tick_at_s = time.monotonic()
            self._loop_state.listening = http.started
            if now_s >= next_sample_s:
                next_sample_s = now_s + 1.0
                self._loop_state.availability.sample(self._service.engine.stats)
            stats = self._service.engine.stats
            self._loop_state.pressure.sample(stats.pressure_level if stats else 0, time.time())
            report.tell(self._probes.health(), now_s)
            await asyncio.sleep(TICK_S)

    def _snapshot(self) -> Snapshot:
        return self._probes.snapshot()


def _load_text(path: Path) -> model_text.ModelText:
    try:
        return model_text.load(path)
    except OSError as error:
        raise ConfigError(unreadable(error)) from error
    except model_text.ERRORS as error:
        raise ConfigError(str(error)) from error
