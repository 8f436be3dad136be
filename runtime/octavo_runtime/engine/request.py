"""A request inside the engine and its sequences: their state, their tokens, their pages."""

import dataclasses
import enum
import math

from octavo_runtime.engine.selective import KvBudget
from octavo_runtime.engine.swapped import Swapped
from octavo_runtime.messages import AddRequest, FinishReason

NARROW_FACTOR = 2  # tokens of 8 bits and their scales take a page's bytes for so many times as many of 16


class State(enum.Enum):
    WAITING = "waiting"
    FETCHING = "fetching"  # has its slot, and waits for pages from a tier
    RUNNING = "running"
    SWAPPED = "swapped"  # waits, and left nothing to compute again
    FINISHED = "finished"


def width(asked: AddRequest) -> int:
    """Sequences that a request runs at once when it has forked: its choices, or its beams."""
    return asked.beam.width if asked.beam else asked.n


def beam_offers(asked: AddRequest) -> int:
    """Next tokens that each live beam offers: twice the width, or what lets the width go on if every ending id is among them."""
    beams = width(asked)
    return beams + max(beams, len({*asked.eos_ids, *asked.stop_ids}))


@dataclasses.dataclass(eq=False)
class Request:
    """What was asked for, and the sequences that are not finished. Its prompt is computed once, by sequence 0, which then forks."""

    asked: AddRequest
    arrival: int  # order of arrival at the engine
    arrived_s: float
    root: bytes  # where its chain of page keys begins
    sequences: list["Sequence"] = dataclasses.field(default_factory=list)
    degraded: list[str] = dataclasses.field(default_factory=list)  # what a shortage of memory did to it
    cached_tokens: int | None = None  # prompt tokens found in the prefix cache; None before the first admission
    forecast_output: int = (
        0  # tokens that a sequence of it is expected to generate, as of its admission (before: its arrival)
    )
    kv_budget: KvBudget | None = None  # what each of its sequences may hold; None: its whole history
    narrow: bool = False  # its keys and values are kept in 8 bits, beside others of 16
    own: bool = False  # the engine's: no client waits for it

    @property
    def prompt_length(self) -> int:
        return len(self.asked.prompt_ids)

    @property
    def page_factor(self) -> int:
        """Its pages hold so many times the pool's tokens of a page."""
        return NARROW_FACTOR if self.narrow else 1

    @property
    def deadline_s(self) -> float:
        """On the clock of `arrived_s`; infinite without a deadline."""
        return math.inf if self.asked.deadline_s is None else self.arrived_s + self.asked.deadline_s


@dataclasses.dataclass(eq=False)
class Sequence:
    """One row of output. `tokens` = prompt and what was generated; the first `computed` of them have keys and values in `pages`.

    With a budget, `evicted` tokens of its history have lost their pages; `pages` has no holes: token t's slot is t − evicted.

    `tokens` and `computed` are what collected steps have done. With those in flight `submitted` tokens are computed, and `drawing`
    more are drawn that the runner has and nobody here knows yet: plans are made from `submitted` and `length`, which count these.
    """

    request: Request
    index: int
    tokens: list[int]
    state: State = State.WAITING
    computed: int = 0
    submitted: int = 0
    drawing: int = 0
    pages: list[int] = dataclasses.field(default_factory=list)
    keys: list[bytes] = dataclasses.field(
        default_factory=list
    )  # of the full pages of `tokens`, as far as they were needed
    slot: int = -1
    swapped: Swapped | None = None  # what it left in the tiers when it was preempted
    told_pages: int = 0  # pages of the table that the runner knows; those from here on are new or were replaced
    computed_once: int = 0  # the most that was ever computed: what lies below is recomputed after a preemption
    offered: bool = False  # a beam whose next tokens are known: it has nothing to compute until its siblings' are too
    passed_by: int = 0  # later sequences that were admitted while this one, at the head, did not fit
    choices: int = 1  # first tokens to draw when the prompt is computed: all those of a request that has not forked
    evicted: int = 0  # whole pages of tokens
    told_evicted: int = 0  # of these, what the runner knows
    weights: dict[int, float] = dataclasses.field(
        default_factory=dict
    )  # of its pages, with a budget: `selective.weighed`
    evicted_before: int = 0  # the most that it had evicted when it was preempted

    @property
    def rank(self) -> tuple[int, int, int]:
        """Who comes first: priority, then arrival."""
        return self.request.asked.priority, self.request.arrival, self.index

    @property
    def page_factor(self) -> int:
        return self.request.page_factor

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.request.prompt_length

    @property
    def length(self) -> int:
        """Of its tokens, with those that are being drawn."""
        return len(self.tokens) + self.drawing

    @property
    def uncomputed(self) -> int:
        """Tokens that the next step could compute."""
        return len(self.tokens) + self.drawing - self.submitted

    @property
    def decoding(self) -> bool:
        """Only the newest token is left to compute."""
        return len(self.tokens) + self.drawing - self.submitted == 1

    @property
    def slots(self) -> int:
        """Of its table, that hold what is submitted."""
        return self.submitted - self.evicted

    def submit(self, count: int) -> None:
        """`count` more tokens are in flight; where they are all that it has, the step draws the next one."""
        self.submitted += count
        if self.submitted == len(self.tokens) + self.drawing:
            self.drawing += 1

    def ends_in_flight(self, max_length: int) -> bool:
        """Whether the token that is being drawn is its last one whatever it is, by length."""
        drawn = self.drawing
        return drawn > 0 and (
            len(self.tokens) + drawn >= max_length or self.generated + drawn == self.request.asked.max_tokens
        )

    def fork(self, index: int) -> "Sequence":
        """A sequence with this one's tokens, without pages of its own yet."""
        return Sequence(self.request, index, list(self.tokens), keys=list(self.keys), computed_once=self.computed_once)

    def reason_to_end(self, token: int, max_length: int) -> tuple[FinishReason, int | None] | None:
        """Why `token`, as its next one, ends it, with the stop id that did; None if it goes on."""
        asked, generated = self.request.asked, self.generated + 1
        if generated >= asked.min_tokens:
            if token in asked.eos_ids:
                return "stop", None
            if token in asked.stop_ids:
                return "stop", token
        if len(self.tokens) + 1 >= max_length or generated == asked.max_tokens:
            return "length", None
        return None


def rank(sequence: Sequence) -> tuple[int, int, int]:
    """By which the running and the waiting are ordered."""
    return sequence.rank
