"""What the scheduler tells the runner for one step, and what comes back. No tensors: a plan can be sent to other ranks as it is.

A plan is a difference: the runner keeps a table of slots (tokens, pages, parameters), the plan says which slots are new, which
pages of a slot are new or were replaced, which slots are dropped, and what to run.
"""

import msgspec

from octavo_runtime.messages import Sampling


class NewSlot(msgspec.Struct, frozen=True):
    """A sequence takes `slot`. Ids in `banned` may not be drawn while it has fewer than `min_length` tokens.

    At the end of its tokens, `choices` tokens are drawn (choice i with `seed` + i) and the first is appended; or, with `top` > 0,
    the `top` likeliest are told with their log-probabilities, and nothing is appended.

    `narrow`: its pages are of the second form that the runner's model has, with twice the tokens.

    `evicted` tokens of its history have no page any more. With `weigh`, each step tells how much attention its pages got.
    """

    slot: int
    tokens: list[int]
    pages: list[int]
    sampling: Sampling
    seed: int
    min_length: int
    banned: list[int]
    choices: int = 1
    top: int = 0
    adapter_slot: int = 0
    evicted: int = 0
    weigh: bool = False
    narrow: bool = False


class Run(msgspec.Struct, frozen=True):
    """Compute tokens start … start + count − 1 of a slot. A draw follows where these are the last ones it has."""

    slot: int
    start: int
    count: int
    draft_ids: list[int] = []


class StepPlan(msgspec.Struct, frozen=True):
    """One step. `run` has slots with one token first. Order of effect: dropped, new, evicted and grown, copies, reformed,
    transfers, run."""

    step: int
    new: list[NewSlot]
    grown: list[tuple[int, int, list[int]]]  # (slot, place of the first in its table, pages)
    dropped: list[int]
    run: list[Run]
    copies: list[tuple[int, int]]  # page copies (source, target)
    transfers: list[int]
    reformed: list[int] = []  # pages to be zeroed: they are written in another form than before
    evicted: list[
        tuple[int, int]
    ] = []  # (slot, tokens that it has evicted in all); `grown` tells what follows in its table

    @property
    def tokens(self) -> int:
        return sum(run.count for run in self.run)


class Drawn(msgspec.Struct, frozen=True):
    """What was drawn at the end of a slot's tokens: one token for each choice, or the likeliest ones with their
    log-probabilities."""

    slot: int
    tokens: list[int]
    logprobs: list[float] = []


class StepResult(msgspec.Struct, frozen=True):
    """A step's draws, in the order of the plan's runs; and of slots that are weighed, the attention that each page of the step's
    table got: a mean over layers and heads, summed over the step's queries."""

    step: int
    drawn: list[Drawn]
    masses: list[tuple[int, list[float]]] = []
