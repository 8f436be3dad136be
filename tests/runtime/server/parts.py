"""A server's parts, put together but not run: no port, and no engine but what a test plays over the socket."""

import asyncio
import contextlib
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import zmq
import zmq.asyncio

from octavo_runtime import messages
from octavo_runtime.config import ServeConfig
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.messages import Call, EngineInfo, FromEngine, Output, Reply, Stats, StepOutputs, ToEngine
from octavo_runtime.server.api_keys import ApiKeys
from octavo_runtime.server.app import build_app
from octavo_runtime.server.drain import Drain, Pace
from octavo_runtime.server.engine_client import EngineClient, engine_endpoint
from octavo_runtime.server.gauges import Snapshot
from octavo_runtime.server.metrics import Metrics, SnapshotCollector
from octavo_runtime.server.probes import Loop, Probes
from octavo_runtime.server.service import Service
from octavo_runtime.server.supervisor import Supervisor
from octavo_runtime.server.tenants import Tenants
from octavo_runtime.text.model_text import ModelText
from tests.runtime.text.tiny import byte_tokenizer

INFO = EngineInfo("tiny", "float32", "cpu", 512, 16, 100, 8, 64, 1 << 20, "reference", 259, True, True, False, 0.0)
STATS = Stats(1, 0, 100, 2, 0, 20, 1, 1, 0, 1, 0.5, 0, max_num_seqs=8)
MESSAGE_TIMEOUT_S = 20.0


class Parts:
    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]", **flags: Any) -> None:
        config = ServeConfig(model="tiny", run_dir=str(folder), **flags)
        self.folder = folder
        self.heartbeat = Heartbeat.open(folder)
        self.heartbeat.reset()
        self.loop = Loop()
        self.later_s = 0.0  # how far the probes' clock is ahead
        self.metrics = Metrics("tiny", SnapshotCollector("tiny", lambda: Snapshot("loading", None, None, None)))
        self.client = EngineClient(engine_endpoint(folder), self.metrics.step)
        text = ModelText(byte_tokenizer(), None, (), {})
        keys = ApiKeys(config.api_key_file) if config.api_key_file is not None else None
        self.service = Service(config, text, self.client, Drain(), Pace(), self.metrics, Tenants.of(config), keys)
        supervisor = Supervisor(config, process, self.client, self.heartbeat, self.metrics.engine_restarted)
        self.probes = Probes(self.service, supervisor, self.heartbeat, self.loop, self.monotonic_s)

    def monotonic_s(self) -> float:
        return time.monotonic() + self.later_s

    def http(self) -> httpx2.AsyncClient:
        """A client of the application, without a port between."""
        app = build_app(self.service, self.probes)
        return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://server")

    def close(self) -> None:
        self.client.close()
        self.heartbeat.close()


class PlayedEngine:
    """The engine's end of the socket: a test reads what it is asked and writes what it answers."""

    def __init__(self, socket: zmq.asyncio.Socket) -> None:
        self._socket = socket
        self._client = b""

    async def receive(self) -> ToEngine:
        async with asyncio.timeout(MESSAGE_TIMEOUT_S):
            self._client, data = await self._socket.recv_multipart()
        return messages.to_engine_decoder.decode(data)

    async def send(self, *outputs: Output) -> None:
        await self._send(StepOutputs(1, list(outputs), STATS))

    async def introduce(self) -> None:
        """Answer the question what came up."""
        call = await self.receive()
        assert isinstance(call, Call)
        await self._send(Reply(call.id, INFO))

    async def _send(self, message: FromEngine) -> None:
        await self._socket.send_multipart([self._client, messages.encoder.encode(message)])


@contextlib.asynccontextmanager
async def played_engine(parts: Parts) -> AsyncIterator[PlayedEngine]:
    """An engine that is up, and the parts connected to it."""
    with zmq.asyncio.Context() as context, context.socket(zmq.ROUTER) as socket:
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind(engine_endpoint(parts.folder))
        engine = PlayedEngine(socket)
        parts.client.connect()
        try:
            await engine.introduce()
            async with asyncio.timeout(MESSAGE_TIMEOUT_S):
                while parts.client.info is None:  # noqa: ASYNC110  # an attribute, nothing to wait for
                    await asyncio.sleep(0.001)
            yield engine
        finally:
            parts.client.disconnect("the test is over")
