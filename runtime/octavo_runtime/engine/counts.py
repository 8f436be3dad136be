"""What the scheduler has done so far, for `Stats`."""

import dataclasses
import logging

from octavo_runtime.engine.request import Request, Sequence
from octavo_runtime.messages import AddRequest

log = logging.getLogger("octavo.engine")

_LOG_EVERY_S = 10.0


@dataclasses.dataclass
class Counts:
    preemptions_total: int = 0
    preempted_ahead_total: int = 0  # of these, before pages lacked
    capped_total: int = 0  # requests whose length was capped
    prefix_queries_tokens_total: int = 0
    prefix_hits_tokens_total: int = 0
    _logged_s: float = -_LOG_EVERY_S

    def looked_up(self, tokens: int, found: int) -> None:
        """A prompt was looked up in the prefix cache for the first time."""
        self.prefix_queries_tokens_total += tokens
        self.prefix_hits_tokens_total += found

    def capped(self, request: Request, wanted: AddRequest, level: int) -> None:
        """A new request may generate less than it wanted."""
        self.capped_total += 1
        had = "its context" if wanted.max_tokens is None else f"max_tokens {wanted.max_tokens:,}"
        request.degraded.append(
            f"length_cap: at most {request.asked.max_tokens:,} tokens instead of {had}, memory pressure level {level}"
        )

    def narrowed(self, request: Request, level: int) -> None:
        """A new request's keys and values are kept in 8 bits."""
        request.degraded.append(f"lossy: keys and values kept in 8 bits, memory pressure level {level}")

    def preempted_ahead(self, sequence: Sequence) -> None:
        """It yields before pages lack: `preempted` follows."""
        self.preempted_ahead_total += 1
        note = "preempt_ahead: paused and computed again, memory was short"
        if note not in sequence.request.degraded:
            sequence.request.degraded.append(note)

    def preempted(self, sequence: Sequence, lost_tokens: int, now_s: float) -> None:
        """Counted each; told at most every ten seconds."""
        self.preemptions_total += 1
        if now_s - self._logged_s < _LOG_EVERY_S:
            return
        log.warning(
            "preempted request %s (%d tokens to compute again, unless still cached): no KV page was free; preemptions so far: %d",
            sequence.request.asked.id,
            lost_tokens,
            self.preemptions_total,
        )
        self._logged_s = now_s


def first_time_prompt_tokens(sequence: Sequence, count: int) -> int:
    """Of `count` tokens computed next, prompt tokens that were never computed before."""
    begin, end = max(sequence.computed, sequence.computed_once), sequence.computed + count
    return max(0, min(end, sequence.request.prompt_length) - begin)
