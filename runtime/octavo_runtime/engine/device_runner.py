"""The runner of a GPU: the step after the one in flight is laid out and submitted before that one is collected (depth 1).

Page tables and the newest drawn token of every slot live on the device; whatever else a step needs is known to the host and travels
with it in one copy (`staging.py`). So no step waits for the host to see a token, and nothing but `collect` waits for the device, or
`submit` of a step that reads pages below the pool (`early_pages.py`).

Steps in which every sequence has one token run as recorded graphs (`cuda_graphs.py`); draws come after them.
"""

import collections
import dataclasses
import functools
from collections.abc import Callable, Iterator

import numpy as np
import torch
from torch import Tensor

from octavo_runtime.engine.cuda_graphs import DecodeGraphs
from octavo_runtime.engine.device_draws import Draws
from octavo_runtime.engine.device_inputs import Inputs
from octavo_runtime.engine.device_results import Results, Weighed
from octavo_runtime.engine.device_slots import SlotTable, StepBatch
from octavo_runtime.engine.device_stream import DeviceStream
from octavo_runtime.engine.device_tables import DeviceTables, put_changes
from octavo_runtime.engine.early_pages import EarlyPages, Reading
from octavo_runtime.engine.plan import StepPlan, StepResult
from octavo_runtime.engine.rehearsal import rehearsals
from octavo_runtime.engine.staging import Staging
from octavo_runtime.model.attention import AttentionBackend, Importance
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.device_sampler import DeviceRows, DeviceSampler, likeliest
from octavo_runtime.model.kv_pool import KvPool

# Holds the inputs of a step of 64 thousand tokens, or the pages of new sequences with half a million tokens.
_STAGING_BYTES = 2 << 20


@dataclasses.dataclass(frozen=True)
class RunnerLimits:
    """What steps are at most: `max_num_seqs` sequences of `max_model_len` tokens, `max_num_batched_tokens` of them in one step."""

    page_size: int
    max_num_seqs: int
    max_model_len: int
    max_num_batched_tokens: int


class DeviceRunner:
    """A `ModelRunner` for a device with a stream. `pool` and the model are on the stream's device."""

    depth = 1

    def __init__(
        self,
        model: Decoder,
        backend: AttentionBackend,
        pool: KvPool,
        sampler: DeviceSampler,
        stream: DeviceStream,
        limits: RunnerLimits,
        early: EarlyPages | None = None,
    ) -> None:
        self._model = model
        self.early = early
        self._backend = backend
        self._pool = pool
        self._sampler = sampler
        self._stream = stream
        self._limits = limits
        self._slots = SlotTable(limits.max_num_seqs, limits.max_model_len, limits.page_size)
        self._graphs = DecodeGraphs(limits.max_num_seqs)
        self._staging = Staging(stream, self.depth + 1, _STAGING_BYTES)
        self._results = Results(stream, self.depth + 1, limits.max_num_seqs)
        self._tables = DeviceTables(limits.max_num_seqs, self._slots.width, stream.device)
        self._submitted: tuple[StepPlan, Tensor, Weighed | None] | None = None
        self._in_flight: collections.deque[int] = collections.deque()
        stream.follow()  # weights, pages and tables were made on the default stream

    @property
    def stream(self) -> DeviceStream:
        """That steps run on."""
        return self._stream

    def submit(self, plan: StepPlan) -> None:
        """Apply the plan's differences and give the device the layers over its tokens."""
        assert self._submitted is None
        assert len(self._in_flight) <= self.depth
        with self._stream.active(), torch.inference_mode():
            self._staging.begin()
            pages = self._slots.apply(plan)
            decodes = all(run.count == 1 for run in plan.run)
            size = self._graphs.size_for(len(plan.run)) if decodes else len(plan.run)
            batch = self._slots.batch(plan.run, size)
            # First, so that the inputs of decodes lie where their graph reads them.
            inputs = Inputs.put(batch, self._staging)
            changes = put_changes(self._staging, pages, plan.copies)
            reading = self._reading(plan, batch)
            self._staging.send()
            self._tables.apply(changes, self._pool)
            importance = self._importance(batch)
            recorded = decodes and reading is None and importance is None
            hidden = self._graphs.replay(size, inputs.slots.data_ptr()) if recorded else None
            if hidden is None:
                kv_lens = tuple(batch.kv_len.tolist())
                hidden = self._forward(inputs, batch.q_lens, kv_lens, reading, importance)
        self._submitted = plan, hidden, self._weighed(plan, batch, importance)
        self._in_flight.append(plan.step)

    def sample(self, step: int, masks: None = None) -> None:
        """Give the device a draw for each run that reaches the end of what its slot knows, and the copy of its result."""
        assert self._submitted is not None
        assert masks is None
        plan, hidden, weighed = self._submitted
        assert plan.step == step
        self._submitted = None
        draws = self._slots.draw(plan.run)
        with self._stream.active(), torch.inference_mode():
            self._draw(hidden, draws, weighed)

    def collect(self, step: int) -> StepResult:
        """Wait for the oldest step in flight; its draws."""
        oldest = self._in_flight.popleft()
        assert oldest == step
        return self._results.collect(step)

    def reset(self) -> None:
        """Forget all slots."""
        assert not self._in_flight
        self._slots.clear()

    def abandon(self, step: int) -> None:
        """Forget a step that failed while it was given to the device, and all slots; what the device does for it yet is lost."""
        self._submitted = None
        if self._in_flight:
            assert list(self._in_flight) == [step]
            self._in_flight.clear()
        self.reset()

    def warm_up(self, progress: Callable[[int], None] = lambda percent: None) -> None:
        """Record the decode steps, then run one step of every kind, so that serving meets no first time."""
        for done in self.record():
            progress(done // 2)
        # Recording gives cached memory back to the driver, so the largest steps come after it.
        for done in self.rehearse():
            progress(50 + done // 2)
        for _ in self.measure():
            progress(100)

    def record(self) -> Iterator[int]:
        """Record the decode steps of all batch sizes, the largest first: others find their memory in its. Yields percentages."""
        sizes = self._graphs.sizes
        for done, size in enumerate(reversed(sizes)):
            self._record(size)
            yield 100 * (done + 1) // len(sizes)

    def rehearse(self) -> Iterator[int]:
        """Run steps of every kind in the sink page. Yields percentages."""
        limits, weigh = self._limits, self._backend.weighs and self._model.config.window is None
        plans = rehearsals(limits.max_num_seqs, limits.max_model_len, limits.max_num_batched_tokens, weigh)
        for done, plan in enumerate(plans):
            self._run(plan)
            yield 100 * (done + 1) // len(plans)

    def measure(self) -> Iterator[int]:
        """Time the ways to pages below the pool, and run steps of every kind over them. Yields percentages."""
        if self.early is not None:
            yield from self.early.measure(self._run, self._limits.max_model_len)

    def _run(self, plan: StepPlan) -> None:
        """Of warm-up: alone, to its end."""
        self.submit(plan)
        self.sample(plan.step)
        self.collect(plan.step)
        self.reset()

    def _record(self, size: int) -> None:
        with self._stream.active(), torch.inference_mode():
            self._staging.begin()
            batch = self._slots.batch([], size)
            inputs = Inputs.put(batch, self._staging)
            self._staging.send()
            longest = (self._limits.max_model_len,) * size
            work = functools.partial(self._forward, inputs, batch.q_lens, longest)
            self._graphs.record(self._stream, size, inputs.slots.data_ptr(), work)

    def _reading(self, plan: StepPlan, batch: StepBatch) -> Reading | None:
        """What a step runs with that reads pages below the pool."""
        early = self.early
        return None if early is None else early.reading(plan.run, self._slots, batch, self._staging)

    def _importance(self, batch: StepBatch) -> Importance | None:
        """Where the layers add up what pages get, for the sequences that have a budget."""
        if not batch.weighed:
            return None
        width = -(-int(batch.kv_len[list(batch.weighed)].max()) // self._limits.page_size)
        return Importance(batch.weighed, torch.zeros(len(batch.weighed), width, device=self._stream.device))

    def _weighed(self, plan: StepPlan, batch: StepBatch, importance: Importance | None) -> Weighed | None:
        if importance is None:
            return None
        page_size = self._limits.page_size
        slots = [(plan.run[index].slot, -(-int(batch.kv_len[index]) // page_size)) for index in batch.weighed]
        return Weighed(slots, importance.mass)

    def _forward(
        self,
        inputs: Inputs,
        q_lens: tuple[int, ...],
        kv_lens: tuple[int, ...],
        reading: Reading | None = None,
        importance: Importance | None = None,
    ) -> Tensor:
        """→ the hidden state of all tokens. What is recorded: everything here depends on the inputs' addresses and shapes alone."""
        meta = inputs.meta(self._tables.pages, q_lens, kv_lens, importance)
        ids = self._tables.known_ids(inputs.ids, inputs.slots, meta.decodes)
        if reading is None or self.early is None:
            return self._model.hidden(ids, meta, self._backend, self._pool.layers)
        return self._model.hidden(ids, self.early.narrowed(meta, reading), reading.backend, reading.layers)

    def _draw(self, hidden: Tensor, draws: Draws, weighed: Weighed | None) -> None:
        put, count = self._staging.put, len(draws.slots)
        rows = put(draws.rows)
        slots = put(draws.slots)
        parameters = DeviceRows(
            temperature=put(draws.parameters["temperature"]),
            top_k=put(draws.parameters["top_k"]),
            top_p=put(draws.parameters["top_p"]),
            min_p=put(draws.parameters["min_p"]),
            seed=put(draws.seeds.view(np.int64)),
            position=put(draws.positions),
        )
        vocab_size = self._model.config.vocab_size
        banned = put(draws.banned[0] * vocab_size + draws.banned[1])
        self._staging.send()
        ids, offers = slots, None  # of a step that draws nothing
        if len(draws.rows):
            ids, offers = self._choose(hidden.index_select(0, rows), banned, parameters, draws.top)
            if count:
                self._tables.drew(slots, ids)
        if weighed is not None:
            weighed.mass.div_(len(self._pool.layers))
        self._results.send(draws, ids, offers, weighed)

    def _choose(
        self, hidden: Tensor, banned: Tensor, parameters: DeviceRows, top: int
    ) -> tuple[Tensor, tuple[Tensor, Tensor] | None]:
        """Of the rows `[R + O, hidden]` the ids `[R]` that are drawn, and the `top` likeliest of the others with their
        log-probabilities; `banned`: places in the rows' logits."""
        count = len(parameters.seed)
        logits = self._model.logits(hidden)
        if len(banned):
            logits.view(-1).index_fill_(0, banned, -torch.inf)
        ids = self._sampler(logits[:count], parameters) if count else parameters.position
        return ids, likeliest(logits[count:], top) if top else None
