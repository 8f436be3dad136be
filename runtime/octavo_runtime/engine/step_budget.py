"""How many tokens a step may have: fewer for a while after memory for one could not be had."""

import dataclasses

RECOVERS_AFTER_S = 30.0


@dataclasses.dataclass
class StepBudget:
    """`most` tokens; halved by each failure, doubled again after half a minute without one."""

    most: int
    tokens: int = 0
    failures_total: int = 0
    _changed_s: float = 0.0

    def __post_init__(self) -> None:
        self.tokens = self.most

    def failed(self, now_s: float) -> bool:
        """A step's memory could not be had; whether a smaller one can be tried."""
        if self.tokens == 1:
            return False
        self.failures_total += 1
        self.tokens, self._changed_s = self.tokens // 2, now_s
        return True

    def look(self, now_s: float) -> None:
        if self.tokens < self.most and now_s - self._changed_s >= RECOVERS_AFTER_S:
            self.tokens, self._changed_s = min(self.most, 2 * self.tokens), now_s
