"""The engine in one object: requests in, steps, outputs. Used by the engine process and by the in-process `LLM`."""

import logging
import time
from collections.abc import Callable, Iterator

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine import derived, warmup
from octavo_runtime.engine.admission import refusal
from octavo_runtime.engine.allocation import AllocationError
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.block_store import BlockStore
from octavo_runtime.engine.first_times import FirstTimes
from octavo_runtime.engine.flushing import flush
from octavo_runtime.engine.loading import load
from octavo_runtime.engine.pipeline import Pipeline
from octavo_runtime.engine.plan import StepPlan
from octavo_runtime.engine.pressure import Means
from octavo_runtime.engine.ranks.leader import Leader, lead
from octavo_runtime.engine.ranks.orders import Begin, Prepare, Reset, Serve, Step
from octavo_runtime.engine.reservation import Reservation
from octavo_runtime.engine.runners import count_late, device_parts, new_page_mover, new_runner
from octavo_runtime.engine.scheduler import Scheduler
from octavo_runtime.engine.step_budget import RECOVERS_AFTER_S
from octavo_runtime.engine.tiers.opening import open_overflow, open_tiers
from octavo_runtime.engine.warmup import Part
from octavo_runtime.messages import AddRequest, ErrorInfo, Output, StepOutputs, TierStats

log = logging.getLogger("octavo.engine")

FULL_AUDIT_EVERY_S = 1.0
FLUSH_S = 4.0  # at the end; `server/engine_process.py` waits for longer


class Engine:
    """Not thread-safe: one loop calls `add`, `abort` and `step`, or what `step` is made of.

    While the runner's `depth` allows it, step N + 1 is planned and submitted before step N is collected.
    """

    def __init__(
        self,
        config: ServeConfig,
        progress: Callable[[int], None] = lambda percent: None,
        reserved: Reservation | None = None,
    ) -> None:
        """Load the model. Raises ModelError and ConfigError, see `loading.load`, and RankError where other ranks fail."""
        self.ranks = lead(config, progress)
        try:
            self._load(config, progress, reserved)
        except Exception:
            self.ranks.close()
            raise

    def _load(self, config: ServeConfig, progress: Callable[[int], None], reserved: Reservation | None) -> None:
        ranks = self.ranks if isinstance(self.ranks, Leader) else None
        loaded = load(config, progress, reserved, ranks)
        self._config = config
        self._overflow = open_overflow(config, loaded.pool)
        self._limits = derived.limits(config, loaded, 0 if self._overflow is None else self._overflow.pages)
        self._narrows = len(loaded.forms) > 1
        max_num_seqs, max_num_tokens = self._limits.max_num_seqs, config.max_num_batched_tokens
        self.ranks.tell(Begin(max_num_seqs, max_num_tokens))
        self._runner = new_runner(loaded, max_num_seqs, max_num_tokens, ranks, self._overflow)
        self._pipeline = Pipeline(self._runner)
        identity = derived.identity(loaded, config.tensor_parallel_size)
        self._identity = identity if config.prefix_caching else None
        self._tiers = open_tiers(config, identity, lambda: new_page_mover(loaded, self._runner, ranks))
        self.info = derived.info(config, loaded, self._limits.max_num_seqs)
        self._firsts = FirstTimes(config, loaded, self._limits.max_num_seqs)
        self._audited_s = 0.0
        self._refused: list[Output] = []
        self._changed = False
        self._failed: tuple[StepPlan, AllocationError] | None = None  # a step that found no memory
        self.scheduler = self._new_scheduler(config.scheduler_delay_ms / 1000, config.memory_ladder, self._tiers)

    def add(self, request: AddRequest) -> None:
        """Queue a request, or refuse it: a refusal comes out of the next `step` as an output with an error."""
        if self.scheduler.knows(request.id):
            error: ErrorInfo | None = ErrorInfo("unsupported", f"the id {request.id} is in use: give another", "id")
        else:
            error = refusal(request, self._limits, self.scheduler.queued())
        if error is None:
            self.scheduler.add(request)
        else:
            self._refused.append(Output(request.id, finish_reason="error", error=error))
        self._changed = True

    def abort(self, ids: list[str], sequences: list[tuple[str, int]] | None = None) -> None:
        """End requests, and single sequences (id, index) of others; what is not known (any more) is ignored."""
        ended = self.scheduler.abort(ids)
        if self.scheduler.abort_sequences(sequences or []) or ended:
            self._changed = True

    @property
    def oldest(self) -> StepPlan | None:
        """The step in flight that `collect` waits for; None when there is none."""
        return self._pipeline.oldest

    def plan(self) -> StepPlan | None:
        """The next step to `submit`; None when nothing can run, or not before the oldest step in flight is collected."""
        self.ranks.check()
        if self._pipeline.full or (self._failed is not None and self.oldest is not None):
            return None
        if self._failed is not None:
            self._roll_back(*self._failed)
        plan = self.scheduler.plan()
        if self._config.audit:
            self._audit()
        return plan

    def submit(self, plan: StepPlan) -> None:
        """Start the step that `plan` has just given. Like `plan` and `collect` it raises RankError when a rank has failed.

        A step that finds no memory is rolled back when those before it are collected, and smaller ones are planned; `plan` raises
        AllocationError where it could not be smaller. It is raised here where ranks do not agree on it.
        """
        self.ranks.tell(Step(plan))
        self._firsts.saw(plan)
        try:
            self._pipeline.submit(plan)
        except AllocationError as error:
            if not self.ranks.agree_on_memory:
                raise
            self._failed = plan, error

    def collect(self) -> StepOutputs:
        """Wait for the oldest step in flight: what it gave, and all else that there is to tell."""
        result = self._pipeline.collect()
        self.ranks.check()
        outputs, stats = self.scheduler.commit(result, self._pipeline.busy_s)
        return StepOutputs(result.step, self._take_refused() + outputs, self._firsts.counted(stats))

    def changes(self) -> StepOutputs | None:
        """What there is to tell when no step runs: refusals, endings, counts that aborts changed; None if nothing."""
        if not self._changed and not self.scheduler.has_ended:
            return None
        outputs, stats = self.scheduler.take_ended(self._pipeline.busy_s)
        return StepOutputs(0, self._take_refused() + outputs, stats)

    def step(self) -> StepOutputs | None:
        """Submit what can be, then collect one step; None when there was nothing to run and nothing to tell."""
        while (plan := self.plan()) is not None:
            self.submit(plan)
        return self.changes() if self.oldest is None else self.collect()

    def settle(self) -> None:
        """Collect what is still in flight for requests that have all ended: it gives nothing, but holds their pages."""
        while self.oldest is not None:
            self.collect()

    def warm_up(self, progress: warmup.Progress = warmup.silent) -> None:
        """Run what serving can meet, so that nothing is met first later: see `warmup.py`. Leaves no trace."""
        self.ranks.tell(Prepare())
        self.scheduler = self._new_scheduler(delay_s=0.0, ladder=False, tiers=None)
        parts = [
            *device_parts(self._runner),
            *self._firsts.parts(self._rehearse),
            Part("sequences that hold KV pages", self._hold_pages(), bounded=False),
        ]
        warmup.run(parts, progress, self._config.warmup_max_seconds)
        self.settle()
        self._forget_slots()
        self.ranks.tell(Serve())
        delay_s = self._config.scheduler_delay_ms / 1000
        self.scheduler = self._new_scheduler(delay_s, self._config.memory_ladder, self._tiers)
        count_late(self._runner, self._firsts.late)
        self._firsts.serving()

    def _rehearse(self, plan: StepPlan) -> None:
        self.ranks.tell(Step(plan))
        self._pipeline.submit(plan)
        self._pipeline.collect()

    def _hold_pages(self) -> Iterator[int]:
        """Sequences that fill a step with their prompts and decode then, each with pages of its own. Yields percentages."""
        self._forget_slots()
        requests = warmup.requests(self._config.warmup_sequences, self._config.max_num_batched_tokens, self._limits)
        for request in requests:
            self.add(request)
        left = len(requests)
        while left and (outputs := self.step()) is not None:
            left -= sum(output.finish_reason is not None for output in outputs.outputs)
            yield 100 * (len(requests) - left) // len(requests)

    def _forget_slots(self) -> None:
        self.ranks.tell(Reset())
        self._pipeline.reset()

    def tier_stats(self) -> list[TierStats]:
        """What the tiers below the pool hold and have done, the fastest first."""
        return [] if self._tiers is None else self._tiers.stats()

    def close(self) -> None:
        """Keep what traffic met and, on disk, what the cache holds; let another engine have the folder; end the ranks."""
        self._firsts.close()
        if self._tiers is not None:
            written, left = flush(self.scheduler.pool, self._tiers, FLUSH_S)
            if written or left:
                log.info("%d cached blocks written to the disk tier at the end, %d left out", written, left)
            self._tiers.close()
        self.ranks.close()

    def _new_scheduler(self, delay_s: float, ladder: bool, tiers: BlockStore | None) -> Scheduler:
        means = Means(tiers=self._tiers is not None, lossy=self._narrows) if ladder else None
        policy = derived.policy(self._config, delay_s, means)
        limits, overflow = self._limits, self._overflow
        pool = BlockPool(limits.pool_pages, limits.page_size, limits.overflow_pages)
        return Scheduler(
            pool, limits, policy, self._identity, depth=self._pipeline.depth, store=tiers, overflow=overflow
        )

    def _roll_back(self, plan: StepPlan, error: AllocationError) -> None:
        """The step is as if it had not been planned; those that follow are smaller."""
        self._failed = None
        self._pipeline.abandon(plan)
        tokens = self.scheduler.roll_back()
        if tokens is None:
            raise error
        log.warning(
            "no memory for a step of %d tokens (%s): rolled back; steps have at most %d tokens now, twice as many after every %g s "
            "without a failure; lower --max-num-batched-tokens or --kv-cache-memory",
            tokens,
            error,
            self.scheduler.budget.tokens,
            RECOVERS_AFTER_S,
        )

    def _audit(self) -> None:
        """The whole books once a second, what costs nothing every step. Raises PoolError."""
        self.scheduler.pool.check_balance()
        now_s = time.monotonic()
        if now_s - self._audited_s >= FULL_AUDIT_EVERY_S:
            self.scheduler.audit()
            self._audited_s = now_s

    def _take_refused(self) -> list[Output]:
        refused, self._refused, self._changed = self._refused, [], False
        return refused
