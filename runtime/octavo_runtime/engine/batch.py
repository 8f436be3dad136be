"""The sequences that run, their slots, and what the runner knows of them."""

import bisect
from collections.abc import Iterator
from typing import NamedTuple

from octavo_runtime.engine.fence import Fence
from octavo_runtime.engine.plan import NewSlot
from octavo_runtime.engine.request import Sequence, State, beam_offers, rank


class Differences(NamedTuple):
    """What the runner is to be told before a step, see `StepPlan`."""

    new: list[NewSlot]
    grown: list[tuple[int, int, list[int]]]  # further or replaced pages (slot, place, pages)
    dropped: list[int]
    evicted: list[tuple[int, int]]


class Batch:
    """At most `slots` sequences, in order of rank. `fence` holds the slots of those that left with a step in flight."""

    def __init__(self, slots: int) -> None:
        self.fence: Fence[int] = Fence(self._free)
        self._free_slots = list(range(slots - 1, -1, -1))
        self._sequences: list[Sequence] = []
        self._known: dict[int, Sequence | None] = {}  # slots of the runner's table; None: whoever had it has left

    def __len__(self) -> int:
        return len(self._sequences)

    def __iter__(self) -> Iterator[Sequence]:
        return iter(list(self._sequences))

    @property
    def first(self) -> Sequence | None:
        """The first by rank."""
        return self._sequences[0] if self._sequences else None

    @property
    def has_slot(self) -> bool:
        return bool(self._free_slots)

    @property
    def free_slots(self) -> int:
        """Slots that are neither taken nor fenced nor promised to choices that are still to be drawn."""
        return len(self._free_slots) - sum(sequence.choices - 1 for sequence in self._sequences)

    def enter(self, sequence: Sequence) -> None:
        sequence.state, sequence.slot = State.RUNNING, self._free_slots.pop()
        bisect.insort(self._sequences, sequence, key=rank)

    def leave(self, sequence: Sequence) -> None:
        self._sequences.remove(sequence)
        self.fence.give(sequence.slot)
        sequence.slot, sequence.told_pages, sequence.told_evicted = -1, 0, 0

    def differences(self) -> Differences:
        """What the runner is to be told; it is taken to know it from then on."""
        new, grown, evicted = [], [], []
        for sequence in self._sequences:
            if self._known.get(sequence.slot) is not sequence:
                new.append(_new_slot(sequence))
                self._known[sequence.slot] = sequence
            else:
                if sequence.told_pages < len(sequence.pages):
                    grown.append((sequence.slot, sequence.told_pages, sequence.pages[sequence.told_pages :]))
                if sequence.told_evicted < sequence.evicted:
                    evicted.append((sequence.slot, sequence.evicted))
            sequence.told_pages, sequence.told_evicted = len(sequence.pages), sequence.evicted
        dropped = [slot for slot, owner in self._known.items() if owner is None]
        for slot in dropped:
            del self._known[slot]
        return Differences(new, grown, dropped, evicted)

    def forget(self) -> None:
        """The runner knows no slot any more."""
        self._known.clear()
        for sequence in self._sequences:
            sequence.told_pages = sequence.told_evicted = 0

    def _free(self, slot: int) -> None:
        self._free_slots.append(slot)
        if slot in self._known:
            self._known[slot] = None


def _new_slot(sequence: Sequence) -> NewSlot:
    asked = sequence.request.asked
    return NewSlot(
        slot=sequence.slot,
        tokens=list(sequence.tokens),
        pages=list(sequence.pages),
        sampling=asked.sampling,
        seed=(asked.seed + sequence.index) % 2**64,
        min_length=sequence.request.prompt_length + asked.min_tokens,
        banned=sorted({*asked.eos_ids, *asked.stop_ids}) if asked.min_tokens else [],
        choices=1 if asked.beam else sequence.choices,
        top=beam_offers(asked) if asked.beam else 0,
        evicted=sequence.evicted,
        weigh=sequence.request.kv_budget is not None,
        narrow=sequence.request.narrow,
    )
