"""A request inside the engine: its state, its tokens, its pages."""

import dataclasses
import enum

from octavo_runtime.messages import AddRequest, FinishReason


class State(enum.Enum):
    WAITING = "waiting"
    RUNNING = "running"
    FINISHED = "finished"


@dataclasses.dataclass(eq=False)
class Sequence:
    """One row of output. `tokens` = prompt and what was generated; the first `computed` of them have keys and values in `pages`."""

    request: AddRequest
    arrival: int  # order of arrival at the engine
    tokens: list[int]
    state: State = State.WAITING
    computed: int = 0
    pages: list[int] = dataclasses.field(default_factory=list)
    slot: int = -1
    computed_once: int = 0  # the most that was ever computed: what lies below is recomputed after a preemption

    @classmethod
    def of(cls, request: AddRequest, arrival: int) -> "Sequence":
        return cls(request, arrival, list(request.prompt_ids))

    @property
    def prompt_length(self) -> int:
        return len(self.request.prompt_ids)

    @property
    def generated(self) -> int:
        return len(self.tokens) - self.prompt_length

    @property
    def uncomputed(self) -> int:
        return len(self.tokens) - self.computed

    @property
    def decoding(self) -> bool:
        """Only the newest token is left to compute."""
        return self.uncomputed == 1

    def accept(self, token: int, max_length: int) -> tuple[FinishReason | None, int | None]:
        """Append a drawn token; why it ends the sequence (with the stop id that did), if it does."""
        self.tokens.append(token)
        request = self.request
        if self.generated >= request.min_tokens:
            if token in request.eos_ids:
                return "stop", None
            if token in request.stop_ids:
                return "stop", token
        if len(self.tokens) >= max_length or self.generated == request.max_tokens:
            return "length", None
        return None, None
