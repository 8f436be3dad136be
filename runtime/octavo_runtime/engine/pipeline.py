"""Steps between the engine and its runner: submitted in the order of their plans, collected in that order, the oldest first."""

import collections
import time
from typing import Protocol

from octavo_runtime.engine.allocation import AllocationError, give_back, is_allocation_failure
from octavo_runtime.engine.plan import StepPlan, StepResult


class Runner(Protocol):
    """Runs planned steps. `depth`: steps that may be in flight when another is submitted; only `collect` may block."""

    @property
    def depth(self) -> int: ...

    def submit(self, plan: StepPlan) -> None: ...

    def sample(self, step: int, masks: None = None) -> None: ...

    def collect(self, step: int) -> StepResult: ...

    def reset(self) -> None: ...

    def abandon(self, step: int) -> None:
        """Forget all slots and a step that failed while it was submitted or sampled; nothing else is in flight."""
        ...


class Pipeline:
    """`busy_s` is the time with a step in flight, so far as it has been collected."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._flying: collections.deque[StepPlan] = collections.deque()
        self._counted_s = 0.0  # until when `busy_s` counts, while a step is in flight
        self.busy_s = 0.0

    @property
    def depth(self) -> int:
        return self._runner.depth

    @property
    def oldest(self) -> StepPlan | None:
        """The step that is collected next, None when nothing is in flight."""
        return self._flying[0] if self._flying else None

    @property
    def full(self) -> bool:
        """Whether a step must be collected before another is submitted."""
        return len(self._flying) > self.depth

    def submit(self, plan: StepPlan) -> None:
        """Raises AllocationError where memory for it cannot be had; `abandon` it before the next, when nothing is in flight."""
        assert not self.full
        if not self._flying:
            self._counted_s = time.monotonic()
        self._flying.append(plan)
        try:
            self._runner.submit(plan)
            self._runner.sample(plan.step)
        except (MemoryError, RuntimeError) as error:
            if not is_allocation_failure(error):
                raise
            self._flying.pop()
            raise AllocationError(str(error).splitlines()[0] if str(error) else "out of memory") from error

    def collect(self) -> StepResult:
        """The oldest step's draws, when they are there."""
        result = self._runner.collect(self._flying[0].step)
        self._flying.popleft()
        now_s = time.monotonic()
        self.busy_s += now_s - self._counted_s
        self._counted_s = now_s
        return result

    def abandon(self, plan: StepPlan) -> None:
        assert not self._flying
        self._runner.abandon(plan.step)
        give_back()

    def reset(self) -> None:
        """Forget the runner's slots, and how long it was busy."""
        assert not self._flying
        self._runner.reset()
        self.busy_s = 0.0
