"""The host's side of a device's slot table: what each slot's sequence was told to be, how long it is, where its pages lie.

All of it is known when a step is planned but for the tokens that the device draws: from the end of what a slot came with, ids are
−1 here, and the device puts the newest one that it drew in their place.
"""

import dataclasses

import numpy as np
import numpy.typing as npt

from octavo_runtime.engine.device_draws import PARAMETERS, DrawList, Draws, Ints
from octavo_runtime.engine.plan import NewSlot, Run, StepPlan

DRAWN = -1  # in place of a token id: the newest one that was drawn for the slot


@dataclasses.dataclass(frozen=True, eq=False)
class PageChanges:
    """What the device's page table is to be told: rows to clear, then the pages at places `slot · width + column`."""

    cleared: Ints
    places: Ints
    pages: Ints


@dataclasses.dataclass(frozen=True, eq=False)
class StepBatch:
    """A step's B sequences and T tokens; sequences without a slot (the sink's) only fill up the batch."""

    slots: Ints  # [B]
    kv_len: npt.NDArray[np.int32]  # [B]
    cu_q: npt.NDArray[np.int32]  # [B + 1]
    ids: Ints  # [T], DRAWN for what only the device knows
    pos: Ints  # [T]
    slot_map: Ints  # [T]
    weighed: tuple[int, ...] = ()  # sequences whose pages' attention is told

    @property
    def q_lens(self) -> tuple[int, ...]:
        return tuple(np.diff(self.cu_q).tolist())


class SlotTable:
    def __init__(self, max_num_seqs: int, max_model_len: int, page_size: int) -> None:
        self.sink = max_num_seqs  # a slot whose pages are all the sink page
        self.width = -(-max_model_len // page_size)
        self._page_size = page_size
        self._entries: dict[int, NewSlot] = {}
        self._tokens: Ints = np.zeros((max_num_seqs + 1, max_model_len + 1), dtype=np.int64)
        self._pages: Ints = np.zeros((max_num_seqs + 1, self.width), dtype=np.int64)
        self._evicted: Ints = np.zeros(max_num_seqs + 1, dtype=np.int64)  # tokens whose pages are gone
        self._given: Ints = np.ones(max_num_seqs + 1, dtype=np.int64)  # tokens that a slot came with
        self._lengths: Ints = np.ones(max_num_seqs + 1, dtype=np.int64)  # those, and those drawn since
        self._parameters = np.zeros(max_num_seqs + 1, dtype=PARAMETERS)
        self._seeds = np.zeros(max_num_seqs + 1, dtype=np.uint64)

    def apply(self, plan: StepPlan) -> PageChanges:
        """Take in a plan's differences."""
        places: list[Ints] = []
        for number in plan.dropped:
            del self._entries[number]
        for entry in plan.new:
            self._enter(entry)
            places.append(entry.slot * self.width + np.arange(len(entry.pages)))
        for number, tokens in plan.evicted:
            self._evicted[number] = tokens
        for number, place, pages in plan.grown:
            self._pages[number, place : place + len(pages)] = pages
            places.append(number * self.width + place + np.arange(len(pages)))
        cleared = np.array([entry.slot for entry in plan.new], dtype=np.int64)
        at = np.concatenate(places) if places else np.empty(0, dtype=np.int64)
        return PageChanges(cleared, at, self._pages.reshape(-1)[at])

    def batch(self, runs: list[Run], sequences: int) -> StepBatch:
        """The step of these runs, filled up to `sequences`."""
        filling = sequences - len(runs)
        slots = _ints([run.slot for run in runs], filling, self.sink)
        starts = _ints([run.start for run in runs], filling, 0)
        counts = _ints([run.count for run in runs], filling, 1)
        cu_q = np.concatenate(([0], np.cumsum(counts)))
        row = np.repeat(slots, counts)
        pos = np.arange(cu_q[-1]) - np.repeat(cu_q[:-1] - starts, counts)
        slot = pos - self._evicted[row]
        page = self._pages[row, slot // self._page_size]
        ids = np.where(pos < self._given[row], self._tokens[row, pos], DRAWN)
        # The device knows the newest tokens of the leading sequences of one token only.
        assert np.repeat(np.cumprod(counts == 1), counts)[ids == DRAWN].all()
        return StepBatch(
            slots=slots,
            kv_len=(starts + counts - self._evicted[slots]).astype(np.int32),
            cu_q=cu_q.astype(np.int32),
            ids=ids,
            pos=pos,
            slot_map=page * self._page_size + slot % self._page_size,
            weighed=tuple(index for index, run in enumerate(runs) if self._entries[run.slot].weigh),
        )

    def pages(self, runs: list[Run]) -> tuple[set[int], set[int]]:
        """Those that a step of these runs reads, and of them those that it writes."""
        used, written = set[int](), set[int]()
        for run in runs:
            table, start = self.table(run), run.start - int(self._evicted[run.slot])
            used |= set(table.tolist())
            written |= set(table[start // self._page_size :].tolist())
        return used, written

    def table(self, run: Run) -> Ints:
        """The pages that a step of this run reads, in the order of its context."""
        end = run.start + run.count - int(self._evicted[run.slot])
        return self._pages[run.slot, : -(-end // self._page_size)]

    def draw(self, runs: list[Run]) -> Draws:
        """The draws at the end of these runs; slots grow by them."""
        ends = np.cumsum([run.count for run in runs]) - 1
        drawing = DrawList(self.sink)
        for run, row in zip(runs, ends.tolist(), strict=True):
            length = int(self._lengths[run.slot])
            if run.start + run.count == length:
                drawing.add(self._entries[run.slot], row, length)
        draws = drawing.finish(self._parameters, self._seeds)
        self._lengths[draws.slots] += 1
        return draws

    def clear(self) -> None:
        self._entries.clear()

    def _enter(self, entry: NewSlot) -> None:
        slot, sampling = entry.slot, entry.sampling
        self._entries[slot] = entry
        self._tokens[slot, : len(entry.tokens)] = entry.tokens
        self._pages[slot] = 0
        self._pages[slot, : len(entry.pages)] = entry.pages
        self._evicted[slot] = entry.evicted
        self._given[slot] = self._lengths[slot] = len(entry.tokens)
        self._parameters[slot] = (sampling.temperature, sampling.top_p, sampling.min_p, sampling.top_k)
        self._seeds[slot] = entry.seed


def _ints(values: list[int], filling: int, fill: int) -> Ints:
    return np.array(values + [fill] * filling, dtype=np.int64)
