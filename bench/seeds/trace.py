"""What a load is and what came of it: arrivals, the answers' times, and what every step told."""

import dataclasses

from octavo_runtime.messages import AddRequest, Stats


@dataclasses.dataclass(frozen=True)
class Arrival:
    at_s: float
    request: AddRequest


@dataclasses.dataclass
class Answer:
    """Times in seconds since the start. `answered_s` is the end of the whole batch where batches are static."""

    arrived_s: float
    token_s: list[float] = dataclasses.field(default_factory=list)
    finished_s: float = 0.0
    answered_s: float = 0.0

    @property
    def latency_s(self) -> float:
        return self.answered_s - self.arrived_s

    @property
    def own_latency_s(self) -> float:
        """To its own last token, also where a static batch is answered later."""
        return self.finished_s - self.arrived_s


@dataclasses.dataclass(frozen=True)
class Step:
    at_s: float
    stats: Stats


@dataclasses.dataclass
class Trace:
    steps: list[Step] = dataclasses.field(default_factory=list)
    answers: dict[str, Answer] = dataclasses.field(default_factory=dict)

    @property
    def wall_s(self) -> float:
        return max(answer.answered_s for answer in self.answers.values())

    @property
    def tokens(self) -> int:
        return sum(len(answer.token_s) for answer in self.answers.values())

    @property
    def rate(self) -> float:
        """Output tokens a second."""
        return self.tokens / self.wall_s

    @property
    def preemptions(self) -> int:
        return self.steps[-1].stats.preemptions_total - self.steps[0].stats.preemptions_total

    def while_waiting(self) -> list[Stats]:
        """Of the steps that left work waiting: those under full load."""
        return [step.stats for step in self.steps if step.stats.waiting > 0]
