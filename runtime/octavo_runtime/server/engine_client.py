"""The API process's end of the socket to the engine: requests out, one message a step in, fanned out to the requests' queues.

Belongs to the event loop's thread. The ZeroMQ socket is used without its asyncio wrapper, so that `Abort` can be sent from any
`finally` without an await, which a cancelled task could not do.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import zmq

from octavo_runtime import messages
from octavo_runtime.messages import (
    Abort,
    AddRequest,
    Call,
    EngineInfo,
    ErrorInfo,
    Output,
    Reply,
    Stats,
    StepOutputs,
    ToEngine,
)

log = logging.getLogger(__name__)

RECONNECT_MS = 20
BACK_S = 5  # about what an engine that ended takes to be back, with its weights in the cache


class Outputs:
    """What arrives for one or more requests sent together, as (number of the request, output)."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[tuple[int, Output]] = asyncio.Queue()

    async def next(self) -> tuple[int, Output]:
        return await self.queue.get()


@dataclasses.dataclass(frozen=True)
class _Sent:
    """A request that is not finished: its number among those sent together, who waits for it, which sequences go on."""

    number: int
    outputs: Outputs
    open: set[int]


class EngineClient:
    """Sends requests and hands outputs to who waits for them. `info` is None until the engine has answered that it is up."""

    def __init__(self, endpoint: str, on_step: Callable[[StepOutputs], None]) -> None:
        self._endpoint = endpoint
        self._on_step = on_step
        self._context = zmq.Context()
        self._socket: zmq.Socket[bytes] | None = None
        self._sent: dict[str, _Sent] = {}
        self.info: EngineInfo | None = None
        self.stats: Stats | None = None

    def connect(self) -> None:
        """Begin with a new engine process and ask it what it came up with; `info` is set by its answer."""
        socket = self._context.socket(zmq.DEALER)
        socket.setsockopt(zmq.LINGER, 0)
        socket.setsockopt(zmq.RECONNECT_IVL, RECONNECT_MS)
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.RCVHWM, 0)
        socket.connect(self._endpoint)
        self._socket = socket
        asyncio.get_running_loop().add_reader(socket.fileno(), self._receive)
        self._send(Call(id=1, method="info"))

    def disconnect(self, reason: str) -> None:
        """The engine process is gone: everything that waits for it ends with an error."""
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None
        self.info = None
        self.stats = None
        for request_id, sent in self._sent.items():
            error = ErrorInfo("failed", reason, retry_after_s=BACK_S)
            lost = Output(id=request_id, finish_reason="error", error=error)
            sent.outputs.queue.put_nowait((sent.number, lost))
        self._sent.clear()

    def close(self) -> None:
        self.disconnect("the server is stopping")
        self._context.term()

    @contextlib.contextmanager
    def generate(self, requests: Sequence[AddRequest]) -> Iterator[Outputs]:
        """Send the requests; whichever is not finished when the block is left is aborted."""
        outputs = Outputs()
        for number, request in enumerate(requests):
            self._sent[request.id] = _Sent(number, outputs, set(range(request.n)))
            self._send(request)
        try:
            yield outputs
        finally:
            self.abort([request.id for request in requests])

    def abort(self, ids: Sequence[str]) -> None:
        """End those of the requests that are not finished yet; what still comes for them is dropped."""
        unfinished = [one for one in ids if self._sent.pop(one, None) is not None]
        if unfinished:
            self._send(Abort(unfinished))

    def abort_sequence(self, request_id: str, index: int) -> None:
        """End one sequence, unless it is finished; its siblings go on. What still comes for it is dropped."""
        sent = self._sent.get(request_id)
        if sent is None or index not in sent.open:
            return
        if sent.open == {index}:
            self.abort([request_id])
            return
        sent.open.discard(index)
        self._send(Abort([], [(request_id, index)]))

    def _send(self, message: ToEngine) -> None:
        if self._socket is None:
            return  # the engine is gone, and `disconnect` told everyone
        self._socket.send(messages.encoder.encode(message), zmq.DONTWAIT)
        # ZeroMQ's descriptor is edge-triggered: sending may eat the edge of something that arrived meanwhile.
        asyncio.get_running_loop().call_soon(self._receive)

    def _receive(self) -> None:
        while self._socket is not None and int(self._socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            data = self._socket.recv(zmq.DONTWAIT)
            try:
                message = messages.from_engine_decoder.decode(data)
            except msgspec.MsgspecError as error:
                log.error("dropped a message from the engine that does not fit this version: %s", error)
                continue
            if isinstance(message, StepOutputs):
                self._dispatch(message)
            else:
                self._accept(message)

    def _dispatch(self, message: StepOutputs) -> None:
        self.stats = message.stats
        for output in message.outputs:
            sent = self._sent.get(output.id)
            if sent is None or output.index not in sent.open:
                continue  # aborted meanwhile
            if output.finish_reason is not None:
                sent.open.discard(output.index)
            if output.error is not None or not sent.open:
                del self._sent[output.id]
            sent.outputs.queue.put_nowait((sent.number, output))
        self._on_step(message)

    def _accept(self, reply: Reply) -> None:
        if reply.error is not None:
            log.error("the engine could not say what it came up with: %s", reply.error)
        self.info = reply.result
        if self.info is not None and self.stats is None:
            self.stats = _idle(self.info)


def _idle(info: EngineInfo) -> Stats:
    """The counts of an engine that has run no step yet, so that scalers see zeros rather than nothing."""
    return Stats(
        running=0,
        waiting=0,
        blocks_total=info.num_blocks,
        blocks_used=0,
        blocks_cached=0,
        slots_filled=0,
        batch_size=0,
        step_tokens=0,
        step_prompt_tokens=0,
        step_generated_tokens=0,
        busy_s_total=0.0,
        preemptions_total=0,
        max_num_seqs=info.max_num_seqs,
        max_num_batched_tokens=info.max_num_batched_tokens,
    )


def engine_endpoint(run_dir: Path) -> str:
    return f"ipc://{run_dir}/engine.sock"
