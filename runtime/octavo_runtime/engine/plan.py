"""What the scheduler tells the runner for one step, and what comes back. No tensors: a plan can be sent to other ranks as it is.

A plan is a difference: the runner keeps a table of slots (tokens, pages, parameters), the plan says which slots are new, which
grew, which are dropped, and what to run.
"""

import msgspec

from octavo_runtime.messages import Sampling


class NewSlot(msgspec.Struct, frozen=True):
    """A sequence takes `slot`. Ids in `banned` may not be drawn while it has fewer than `min_length` tokens."""

    slot: int
    tokens: list[int]
    pages: list[int]
    sampling: Sampling
    seed: int
    min_length: int
    banned: list[int]
    adapter_slot: int = 0


class Run(msgspec.Struct, frozen=True):
    """Compute tokens start … start + count − 1 of a slot. A draw follows where these are the last ones it has."""

    slot: int
    start: int
    count: int
    draft_ids: list[int] = []


class StepPlan(msgspec.Struct, frozen=True):
    """One step. `run` has slots with one token first. Order of effect: dropped, new, grown, copies, transfers, run."""

    step: int
    new: list[NewSlot]
    grown: list[tuple[int, list[int]]]  # (slot, further pages)
    dropped: list[int]
    run: list[Run]
    copies: list[tuple[int, int]]  # page copies (source, target)
    transfers: list[int]

    @property
    def tokens(self) -> int:
        return sum(run.count for run in self.run)


class StepResult(msgspec.Struct, frozen=True):
    """The drawn tokens of a step: (slot, token id), in the order of the plan's runs."""

    step: int
    drawn: list[tuple[int, int]]
