"""Keeps an engine process running: when a serving one dies, every stream ends with an error and a new one is started.

An engine that ends before it was ever up (a wrong model path, too little memory) is not started again: the same would happen.
"""

import asyncio
import logging
import subprocess
from collections.abc import Callable

from octavo_runtime.config import ServeConfig
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.server.engine_client import EngineClient
from octavo_runtime.server.engine_process import end_engine, how_it_ended, start_engine

log = logging.getLogger(__name__)


class EngineStartError(Exception):
    """The engine ended while loading; the text says why."""


class Supervisor:
    def __init__(
        self,
        config: ServeConfig,
        first: "subprocess.Popen[bytes]",
        client: EngineClient,
        heartbeat: Heartbeat,
        on_restart: Callable[[], None],
    ) -> None:
        self._config = config
        self._process = first
        self._client = client
        self._heartbeat = heartbeat
        self._on_restart = on_restart
        self._stopping = False
        self.restarts = 0
        self.last_end = ""  # how the engine process ended last

    @property
    def pid(self) -> int:
        return self._process.pid

    async def run(self) -> None:
        """Until `stop`. Raises EngineStartError."""
        while True:
            self._client.connect()
            return_code = await asyncio.to_thread(self._process.wait)
            self.last_end = how_it_ended(return_code)
            was_up = self._client.info is not None
            reason = f"the engine process ended ({self.last_end}){self._told()}"
            self._client.disconnect("the server is stopping" if self._stopping else reason)
            if self._stopping:
                return
            if not was_up:
                raise EngineStartError(self._why_not_started(reason))
            log.error("%s; starting it again", reason)
            self._restart(reason)

    def _told(self) -> str:
        """What it left to say of its end while serving."""
        pulse = self._heartbeat.read()
        return f": {pulse.reason}" if self._client.info is not None and pulse.phase == "stopped" else ""

    def _why_not_started(self, how_it_ended: str) -> str:
        """The engine's own words where it left some; a killed one could not."""
        pulse = self._heartbeat.read()
        if pulse.phase == "stopped" and pulse.reason:
            return f"the engine could not start: {pulse.reason}"
        return f"the engine could not start: {how_it_ended} before it was ready"

    def _restart(self, reason: str) -> None:
        self.restarts += 1
        self._on_restart()
        self._heartbeat.reset()
        self._heartbeat.progress("loading", 0, f"{reason}; starting it again")
        self._process = start_engine(self._config)

    async def stop(self) -> None:
        self._stopping = True
        await asyncio.to_thread(end_engine, self._process)
