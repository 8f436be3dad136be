"""The engine in one object: requests in, steps, outputs. Used by the engine process and by the in-process `LLM`."""

import time
from collections.abc import Callable

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.admission import Limits, refusal
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.loading import load
from octavo_runtime.engine.plan import StepPlan
from octavo_runtime.engine.runner import ModelRunner
from octavo_runtime.engine.scheduler import Scheduler
from octavo_runtime.messages import AddRequest, EngineInfo, Output, Sampling, StepOutputs

WARMUP_SEQUENCES = 8


class Engine:
    """Not thread-safe: one loop calls `add`, `abort` and `step`."""

    def __init__(self, config: ServeConfig, progress: Callable[[int], None] = lambda percent: None) -> None:
        """Load the model. Raises ModelError and ConfigError, see `loading.load`."""
        loaded = load(config, progress)
        max_num_seqs = min(config.max_num_seqs, loaded.pool.pages)
        self._limits = Limits(
            max_model_len=loaded.max_model_len,
            pool_pages=loaded.pool.pages,
            page_size=loaded.block_size,
            vocab_size=loaded.decoder.config.vocab_size,
            max_queued=config.max_num_queued_reqs,
        )
        self._runner = ModelRunner(
            loaded.decoder, loaded.backend, loaded.pool, loaded.block_size, max_num_seqs, loaded.max_model_len
        )
        pool = BlockPool(loaded.pool.pages, loaded.block_size)
        self.scheduler = Scheduler(pool, self._limits, max_num_seqs, config.max_num_batched_tokens)
        self._busy_s = 0.0
        self._refused: list[Output] = []
        self._changed = False
        self.info = EngineInfo(
            model=config.model_name,
            dtype=str(loaded.dtype).removeprefix("torch."),
            device=str(loaded.device),
            max_model_len=loaded.max_model_len,
            block_size=loaded.block_size,
            num_blocks=loaded.pool.pages,
            max_num_seqs=max_num_seqs,
            max_num_batched_tokens=config.max_num_batched_tokens,
            kv_cache_bytes=loaded.pool.total_bytes,
            attention_backend=loaded.backend.name,
            vocab_size=self._limits.vocab_size,
        )

    def add(self, request: AddRequest) -> None:
        """Queue a request, or refuse it: a refusal comes out of the next `step` as an output with an error."""
        error = refusal(request, self._limits, self.scheduler.queued)
        if error is None:
            self.scheduler.add(request)
        else:
            self._refused.append(Output(request.id, finish_reason="error", error=error))
        self._changed = True

    def abort(self, ids: list[str]) -> None:
        """End requests; ids that are not known (any more) are ignored."""
        if self.scheduler.abort(ids):
            self._changed = True

    def plan(self) -> StepPlan | None:
        return self.scheduler.plan()

    def run(self, plan: StepPlan) -> StepOutputs:
        """Run a planned step to its end."""
        started_s = time.monotonic()
        self._runner.submit(plan)
        self._runner.sample(plan.step)
        result = self._runner.collect(plan.step)
        self._busy_s += time.monotonic() - started_s
        outputs, stats = self.scheduler.commit(result, self._busy_s)
        return StepOutputs(plan.step, self._take_refused() + outputs, stats)

    def changes(self) -> StepOutputs | None:
        """What there is to tell when no step runs: refusals, endings, counts that aborts changed; None if nothing."""
        if not self._changed and not self.scheduler.has_ended:
            return None
        outputs, stats = self.scheduler.take_ended(self._busy_s)
        return StepOutputs(0, self._take_refused() + outputs, stats)

    def step(self) -> StepOutputs | None:
        """Plan and run one step; None when there was nothing to run and nothing to tell."""
        plan = self.plan()
        return self.changes() if plan is None else self.run(plan)

    def warm_up(self, progress: Callable[[int], None] = lambda percent: None) -> None:
        """Run the largest prompt chunk and a decoding batch once, so that serving meets no first time. Leaves no trace."""
        length = max(1, min(self.info.max_num_batched_tokens // WARMUP_SEQUENCES, self._limits.max_model_len - 2))
        room = self._limits.pool_pages // (-(-(length + 2) // self._limits.page_size))
        count = min(WARMUP_SEQUENCES, self.info.max_num_seqs, room)
        for index in range(count):
            self.add(AddRequest(f"warmup-{index}", [0] * length, Sampling(temperature=0.0), seed=0, max_tokens=2))
        left = count
        while left and (outputs := self.step()) is not None:
            left -= sum(output.finish_reason is not None for output in outputs.outputs)
            progress(100 * (count - left) // max(1, count))
        self._busy_s = 0.0

    def _take_refused(self) -> list[Output]:
        refused, self._refused, self._changed = self._refused, [], False
        return refused
