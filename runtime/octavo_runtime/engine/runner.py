"""From a plan to tensors, through the model, to drawn tokens.

`submit` lays out the batch and runs the layers, `sample` draws, `collect` hands the tokens over; only `collect` may block. On a CPU
all of it runs in the caller's thread (depth 0): one step is submitted, sampled and collected before the next.

The runner keeps a table of slots (tokens, pages, parameters) that plans change by differences.
"""

import dataclasses
import itertools

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from octavo_kernels.kv_form import Forms
from octavo_runtime.engine.plan import Drawn, NewSlot, Run, StepPlan, StepResult
from octavo_runtime.engine.request import NARROW_FACTOR
from octavo_runtime.model.attention import AttentionBackend, AttentionMeta, Importance
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.sampler import Draw, Row, sample


@dataclasses.dataclass
class _Slot:
    """One row of the slot table. `tokens` and `pages` are rows of the shared arrays."""

    entry: NewSlot
    length: int


class ModelRunner:
    """Runs steps of at most `max_num_seqs` sequences of at most `max_model_len` tokens."""

    depth = 0

    def __init__(
        self,
        model: Decoder,
        backend: AttentionBackend,
        pool: KvPool,
        page_size: int,
        max_num_seqs: int,
        max_model_len: int,
    ) -> None:
        self._model = model
        self._backend = backend
        self._pool = pool
        self._page_size = page_size
        self._tokens: npt.NDArray[np.int64] = np.zeros((max_num_seqs, max_model_len + 1), dtype=np.int64)
        self._pages: npt.NDArray[np.int64] = np.zeros((max_num_seqs, -(-max_model_len // page_size)), dtype=np.int64)
        self._sizes: npt.NDArray[np.int64] = np.full(max_num_seqs, page_size, dtype=np.int64)  # of a slot's pages
        self._evicted: npt.NDArray[np.int64] = np.zeros(max_num_seqs, dtype=np.int64)
        self._slots: dict[int, _Slot] = {}
        self._importance: Importance | None = None
        self._plan: StepPlan | None = None
        self._hidden: Tensor | None = None
        self._drawn: list[Drawn] = []

    def submit(self, plan: StepPlan) -> None:
        """Apply the plan's differences and run the layers over its tokens."""
        for number in plan.dropped:
            del self._slots[number]
        for entry in plan.new:
            self._tokens[entry.slot, : len(entry.tokens)] = entry.tokens
            self._pages[entry.slot, : len(entry.pages)] = entry.pages
            self._sizes[entry.slot] = self._page_size * (NARROW_FACTOR if entry.narrow else 1)
            self._evicted[entry.slot] = entry.evicted
            self._slots[entry.slot] = _Slot(entry, len(entry.tokens))
        for number, tokens in plan.evicted:
            self._evicted[number] = tokens
        for number, place, pages in plan.grown:
            self._pages[number, place : place + len(pages)] = pages
        self._pool.copy(plan.copies)
        self._pool.zero(plan.reformed)
        self._plan = plan
        ids, meta = self._batch(plan.run)
        self._importance = meta.importance
        with torch.inference_mode():
            self._hidden = self._model.hidden(ids, meta, self._backend, self._pool.layers)

    def sample(self, step: int, masks: None = None) -> None:
        """Draw a token for each run that reaches the end of what its slot knows."""
        plan, hidden = self._plan, self._hidden
        assert plan is not None
        assert hidden is not None
        assert plan.step == step
        assert masks is None
        ends = [index for index, run in enumerate(plan.run) if run.start + run.count == self._slots[run.slot].length]
        slots = [plan.run[index].slot for index in ends]
        self._drawn = []
        if not ends:
            return
        with torch.inference_mode():
            draws = self._draw(_last_rows(hidden, plan.run, ends), [self._row(slot) for slot in slots])
        for slot, draw in zip(slots, draws, strict=True):
            if not self._slots[slot].entry.top:
                self._tokens[slot, self._slots[slot].length] = draw.tokens[0]
                self._slots[slot].length += 1
            self._drawn.append(Drawn(slot, draw.tokens, draw.logprobs))

    def collect(self, step: int) -> StepResult:
        """The step's drawn tokens."""
        assert self._plan is not None
        assert self._plan.step == step
        masses = self._masses(self._plan.run)
        self._plan = self._hidden = self._importance = None
        drawn, self._drawn = self._drawn, []
        return StepResult(step, drawn, masses)

    def abandon(self, step: int) -> None:
        """Forget a step that failed, and all slots."""
        self._plan = self._hidden = self._importance = None
        self._drawn = []
        self.reset()

    def reset(self) -> None:
        """Forget all slots."""
        self._slots.clear()

    def _masses(self, runs: list[Run]) -> list[tuple[int, list[float]]]:
        """The attention that the pages of weighed slots got in the step."""
        importance = self._importance
        if importance is None:
            return []
        means = (importance.mass / len(self._pool.layers)).tolist()
        slots = [(runs[index].slot, runs[index].start + runs[index].count) for index in importance.sequences]
        return [
            (slot, mass[: -(-(end - int(self._evicted[slot])) // int(self._sizes[slot]))])
            for (slot, end), mass in zip(slots, means, strict=True)
        ]

    def _draw(self, hidden: Tensor, rows: list[Row]) -> list[Draw]:
        """Rows that only ask for the likeliest token take no logits."""
        if all(row.plain_greedy for row in rows):
            return [
                Draw([best] * row.choices)
                for best, row in zip(self._model.likeliest(hidden).tolist(), rows, strict=True)
            ]
        return sample(self._model.logits(hidden), rows, self._model.drawing)

    def _row(self, number: int) -> Row:
        slot = self._slots[number]
        entry = slot.entry
        choices = entry.choices if slot.length == len(entry.tokens) else 1  # the first draw is the prompt's
        banned = tuple(entry.banned) if slot.length < entry.min_length else ()
        return Row(entry.sampling, entry.seed, slot.length, banned, choices, entry.top)

    def _forms(self, sequences: npt.NDArray[np.int64], tokens: npt.NDArray[np.int64], filling: int) -> Forms | None:
        """From the sizes of pages; None where all are the model's own."""
        narrow = sequences > self._page_size
        if not narrow.any():
            return None
        of_tokens = np.pad((tokens > self._page_size).astype(np.uint8), (0, filling))
        return Forms(torch.from_numpy(of_tokens), torch.from_numpy(narrow.astype(np.uint8)))

    def _batch(self, runs: list[Run]) -> tuple[Tensor, AttentionMeta]:
        """Token ids `[T]` and what attention needs to know of the batch; T may be more than the runs have."""
        slots = np.array([run.slot for run in runs])
        q_lens = np.array([run.count for run in runs])
        starts = np.array([run.start for run in runs])
        cu_q = np.concatenate(([0], np.cumsum(q_lens)))
        row = np.repeat(slots, q_lens)
        pos = np.arange(cu_q[-1]) - np.repeat(cu_q[:-1] - starts, q_lens)
        slot = pos - self._evicted[row]
        kv_lens = starts + q_lens - self._evicted[slots]
        sizes = self._sizes[slots]
        counts = -(-kv_lens // sizes)
        width = int(counts.max())
        page_table = self._pages[slots, :width]
        # Columns beyond a sequence's pages hold what an earlier one left: point them at the sink.
        page_table = np.where(np.arange(width) < counts[:, None], page_table, 0)
        row_sizes = self._sizes[row]
        slot_map = self._pages[row, slot // row_sizes] * row_sizes + slot % row_sizes
        # Rows that only fill up the batch: they write to the sink, and nobody looks at what they give.
        filling = self._model.padded_rows(len(pos)) - len(pos)
        if filling:
            row, pos, slot_map = (np.pad(each, (0, filling)) for each in (row, pos, slot_map))
        weighed = tuple(index for index, run in enumerate(runs) if self._slots[run.slot].entry.weigh)
        meta = AttentionMeta(
            cu_q=torch.from_numpy(cu_q.astype(np.int32)),
            kv_len=torch.from_numpy(kv_lens.astype(np.int32)),
            pos=torch.from_numpy(pos),
            page_table=torch.from_numpy(page_table),
            slot_map=torch.from_numpy(slot_map),
            q_lens=tuple(q_lens.tolist()),
            kv_lens=tuple(kv_lens.tolist()),
            forms=self._forms(sizes, np.repeat(sizes, q_lens), filling),
            importance=Importance(weighed, torch.zeros(len(weighed), width)) if weighed else None,
        )
        return torch.from_numpy(self._tokens[row, pos]), meta


def _last_rows(hidden: Tensor, runs: list[Run], ends: list[int]) -> Tensor:
    """The last row of each run in `ends`. Where that is every row there is none to gather, which saves one token a hundredth."""
    if len(ends) == len(hidden):
        return hidden
    last = list(itertools.accumulate(run.count for run in runs))
    return hidden[torch.tensor([last[index] - 1 for index in ends])]
