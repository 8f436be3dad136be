"""The control socket in the run directory: `octavo drain` asks for a drain here and is told how it goes, a JSON line a second.

Request: `{"settle_s": 5, "timeout_s": 60}`. Answer lines: `{"done", "in_flight", "phase", "estimate_s"}`; the last
has `done`: true.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Annotated

import msgspec

from octavo_runtime.server.drain import Drain, Pace

REPORT_EVERY_S = 1.0


class DrainOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    settle_s: Annotated[float, msgspec.Meta(ge=0)]
    timeout_s: Annotated[float, msgspec.Meta(ge=0)]


class ControlSocket:
    def __init__(self, run_dir: Path, drain: Drain, pace: Pace) -> None:
        self._path = run_dir / "control.sock"
        self._drain = drain
        self._pace = pace
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._serve, self._path)
        os.chmod(self._path, 0o600)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        self._path.unlink(missing_ok=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            order = msgspec.json.decode(await reader.readline(), type=DrainOrder)
            await self._drain_and_report(order, writer)
        except msgspec.MsgspecError as error:
            writer.write(json.dumps({"error": str(error)}).encode() + b"\n")
        except ConnectionError:
            pass  # who asked went away; the drain goes on
        finally:
            writer.close()

    async def _drain_and_report(self, order: DrainOrder, writer: asyncio.StreamWriter) -> None:
        drained = asyncio.ensure_future(self._drain.run(order.settle_s, order.timeout_s))
        while not drained.done():
            await asyncio.wait({drained}, timeout=REPORT_EVERY_S)
            await self._report(writer, done=drained.done())

    async def _report(self, writer: asyncio.StreamWriter, done: bool) -> None:
        line = {
            "done": done,
            "in_flight": self._drain.in_flight,
            "phase": self._drain.phase,
            "estimate_s": self._pace.estimate_s(),
        }
        writer.write(json.dumps(line).encode() + b"\n")
        await writer.drain()
