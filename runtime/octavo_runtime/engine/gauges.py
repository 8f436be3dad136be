"""What is told of the engine's state after a step: `Stats`, from the books and from what the step did."""

import dataclasses

from octavo_runtime.engine.counts import Counts
from octavo_runtime.engine.ladder import Ladder
from octavo_runtime.engine.lifecycle import Lifecycle
from octavo_runtime.engine.peak_admission import PeakAdmission
from octavo_runtime.engine.quality_guard import QualityGuard
from octavo_runtime.engine.step_budget import StepBudget
from octavo_runtime.messages import Stats


@dataclasses.dataclass(frozen=True)
class Done:
    """What a collected step did; and how long outputs were that ended since, each with its forecast."""

    sequences: int = 0
    tokens: int = 0
    prompt_tokens: int = 0  # of these, prompt tokens that were computed for the first time
    generated_tokens: int = 0
    lengths: list[tuple[int, int]] = dataclasses.field(default_factory=list)


class Gauges:
    def __init__(
        self,
        life: Lifecycle,
        peak: PeakAdmission,
        counts: Counts,
        ladder: Ladder,
        guard: QualityGuard,
        budget: StepBudget,
    ) -> None:
        self._life = life
        self._peak = peak
        self._ladder = ladder
        self._guard = guard
        self._budget = budget
        self._counts = counts

    def stats(self, done: Done, max_num_seqs: int, now_s: float, busy_s_total: float) -> Stats:
        pool, life, counts = self._life.pool, self._life, self._counts
        for length, _ in done.lengths:
            self._peak.lengths.record(length)
        predicted_peak, predicted_deficit = self._peak.prediction(life.batch, life.waiting.expected_tokens, now_s)
        blocks_used = life.pages_used()
        return Stats(
            running=len(life.batch),
            waiting=len(life.waiting),
            blocks_total=pool.total,
            blocks_used=blocks_used,
            blocks_cached=pool.cached,
            slots_filled=life.slots_filled(blocks_used),
            batch_size=done.sequences,
            step_tokens=done.tokens,
            step_prompt_tokens=done.prompt_tokens,
            step_generated_tokens=done.generated_tokens,
            busy_s_total=busy_s_total,
            preemptions_total=counts.preemptions_total,
            max_num_seqs=max_num_seqs,
            prefix_queries_tokens_total=counts.prefix_queries_tokens_total,
            prefix_hits_tokens_total=counts.prefix_hits_tokens_total,
            page_copies_total=life.tables.copies_total,
            evicted_tokens_total=life.tables.evicted_tokens_total,
            predicted_peak_blocks=predicted_peak,
            predicted_deficit_blocks=predicted_deficit,
            pressure_level=self._ladder.tell(),
            degradations_total=list(self._ladder.entered_total),
            preempted_ahead_total=counts.preempted_ahead_total,
            capped_total=counts.capped_total,
            max_num_batched_tokens=self._budget.tokens,
            failed_steps_total=self._budget.failures_total,
            tiers=life.tiering.stats(),
            tier_hits_tokens_total=life.tiering.hits_tokens_total,
            swapped_total=life.tiering.swapped_total,
            guard_compared_total=self._guard.compared_total,
            guard_same_total=self._guard.same_total,
            step_forecast_ratios=[length / max(1, forecast) for length, forecast in done.lengths],
        )
