"""The engine process: `python -m octavo_runtime.engine <config as JSON> <process id of the parent>`.

Binds a ROUTER socket in the run directory at once, loads and warms the model, then loops: take messages, submit steps as far ahead
as the runner allows, send what the oldest one gave. Requests that arrive while the model loads wait in the socket. The heartbeat
tells phase and progress from the first moment.

It ends with its parent: a signal from the kernel, and exit code 1 with the reason in the heartbeat when the model cannot be loaded
or another rank of it has failed.
"""

import gc
import logging
import math
import os
import signal
import time
from pathlib import Path
from types import FrameType
from typing import Never

import zmq

from octavo_runtime import messages
from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.reservation import Reservation
from octavo_runtime.heartbeat import Heartbeat
from octavo_runtime.messages import Abort, AddRequest, Call, FromEngine, Reply, StepOutputs
from octavo_runtime.model.collectives import RankError
from octavo_runtime.model.config import ModelError

log = logging.getLogger("octavo.engine")

_IDLE_POLL_MS = 500  # the heartbeat's period while idle
_PRESSURE_SHOWN_EVERY_S = 1.0


def main(config: ServeConfig, reserved: Reservation | None) -> int:
    """Until it is ended; the exit code. `reserved`: memory for KV that was begun before this module was imported."""
    assert config.run_dir is not None
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the API process decides when we end
    run_dir = Path(config.run_dir)
    heartbeat = Heartbeat.open(run_dir)
    heartbeat.reset()
    try:
        loop = EngineLoop(config, heartbeat, run_dir / "engine.sock", reserved)
    except (ModelError, ConfigError, RankError) as error:
        _tell_why(heartbeat, str(error))
        return 1
    except Exception as error:  # the outermost frame: the API process needs a reason whatever it is
        log.exception("the model could not be loaded")
        _tell_why(heartbeat, f"{type(error).__name__}: {error}")
        return 1
    signal.signal(signal.SIGTERM, _end)
    try:
        loop.run()
    except RankError as error:
        _tell_why(heartbeat, str(error))
        return 1
    except _EndAsked:
        loop.close()
        os._exit(0)  # taking torch apart would take another second


class _EndAsked(BaseException):  # passes by whatever handles errors
    """The API process asks for the end: nothing is in flight any more, or it was given up."""


def _end(number: int, frame: FrameType | None) -> None:
    raise _EndAsked


def _tell_why(heartbeat: Heartbeat, reason: str) -> None:
    """The API process logs the heartbeat's reason as its last line; here it is logged only where that cuts it."""
    heartbeat.progress("stopped", 0, reason)
    if heartbeat.read().reason != reason:
        log.error("%s", reason)


class EngineLoop:
    """One engine, one socket, one heartbeat."""

    def __init__(
        self, config: ServeConfig, heartbeat: Heartbeat, socket_path: Path, reserved: Reservation | None = None
    ) -> None:
        self._heartbeat = heartbeat
        self._pressure_shown = 0, 0.0  # the level that the heartbeat tells, and since when
        self._client = b""  # identity of the API process that spoke last
        self._socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.ROUTER)
        self._socket.setsockopt(zmq.LINGER, 0)
        socket_path.unlink(missing_ok=True)
        self._socket.bind(f"ipc://{socket_path}")
        started_s = time.monotonic()
        heartbeat.progress("loading", 0, f"loading {config.model}")
        told = f"loading {config.model}"
        self._engine = Engine(config, lambda percent: heartbeat.progress("loading", percent, told), reserved)
        loaded_s = time.monotonic()
        self._engine.warm_up(lambda percent, what: heartbeat.progress("warming", percent, what))
        # What is here stays for good; the collector, off since the imports, need not look at it again.
        gc.freeze()
        gc.enable()
        heartbeat.progress("ready", 100, "")
        info = self._engine.info
        log.info(
            "%s in %s on %s: %d KV pages of %d tokens in %s (%d MiB), context %d; loaded in %.1f s, warmed in %.1f s",
            info.model,
            info.dtype,
            info.device,
            info.num_blocks,
            info.block_size,
            info.kv_cache_dtype,
            info.kv_cache_bytes >> 20,
            info.max_model_len,
            loaded_s - started_s,
            time.monotonic() - loaded_s,
        )

    def close(self) -> None:
        self._engine.close()

    def run(self) -> Never:
        """Serve until the process is ended."""
        while True:
            self._receive(self._patience_ms())
            outputs = self._step()
            if outputs is not None:
                self._send(outputs)
            self._show_pressure()

    def _step(self) -> StepOutputs | None:
        """`Engine.step`, with the heartbeat showing the oldest step in flight: the one that may hang."""
        engine, heartbeat = self._engine, self._heartbeat
        while (plan := engine.plan()) is not None:
            if engine.oldest is None:
                heartbeat.start_step(plan.step, plan.tokens)
            engine.submit(plan)
        if engine.oldest is None:
            heartbeat.beat()
            return engine.changes()
        outputs = engine.collect()
        heartbeat.end_step()
        if engine.oldest is not None:
            heartbeat.start_step(engine.oldest.step, engine.oldest.tokens)
        return outputs

    def _show_pressure(self) -> None:
        """Phase and reason: when the memory ladder's level has changed, and its newest numbers every second."""
        ladder, now_s = self._engine.scheduler.ladder, time.monotonic()
        level, shown_s = self._pressure_shown
        if ladder.level != level or (ladder.level and now_s - shown_s >= _PRESSURE_SHOWN_EVERY_S):
            self._pressure_shown = ladder.level, now_s
            self._heartbeat.progress("pressured" if ladder.level else "ready", 100, ladder.reason)

    def _patience_ms(self) -> int:
        """How long to wait for a message: not at all with work to do, unless the engine gathers a batch first."""
        scheduler = self._engine.scheduler
        if not scheduler.has_work:
            return _IDLE_POLL_MS
        return math.ceil(1000 * scheduler.gathering_s())

    def _receive(self, timeout_ms: int) -> None:
        """Take every message that is there, waiting up to the timeout for the first."""
        if not self._socket.poll(timeout_ms):
            return
        while self._socket.poll(0):
            self._client, data = self._socket.recv_multipart()
            match messages.to_engine_decoder.decode(data):
                case AddRequest() as request:
                    self._engine.add(request)
                case Abort(ids, sequences):
                    self._engine.abort(ids, sequences)
                case Call(id=number):
                    self._send(Reply(number, self._engine.info))

    def _send(self, message: FromEngine) -> None:
        if self._client:
            self._socket.send_multipart([self._client, messages.encoder.encode(message)])
