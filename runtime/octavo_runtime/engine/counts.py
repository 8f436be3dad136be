"""What the scheduler has done so far, for `Stats`."""

import dataclasses
import logging

from octavo_runtime.engine.request import Sequence

log = logging.getLogger("octavo.engine")

_LOG_EVERY_S = 10.0


@dataclasses.dataclass
class Counts:
    preemptions_total: int = 0
    prefix_queries_tokens_total: int = 0
    prefix_hits_tokens_total: int = 0
    _logged_s: float = -_LOG_EVERY_S

    def looked_up(self, tokens: int, found: int) -> None:
        """A prompt was looked up in the prefix cache for the first time."""
        self.prefix_queries_tokens_total += tokens
        self.prefix_hits_tokens_total += found

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
