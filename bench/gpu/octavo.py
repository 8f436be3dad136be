"""A workload on Octavo's scheduler and runner, one step ahead, without server and tokenizer."""

import time

from bench.gpu.figures import Run, Workload, steady_rate
from octavo_runtime.engine.admission import Limits
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.device_runner import RunnerLimits
from octavo_runtime.engine.pipeline import Pipeline, Runner
from octavo_runtime.engine.policy import Policy
from octavo_runtime.engine.scheduler import Scheduler
from octavo_runtime.messages import AddRequest, Sampling


def octavo_run(
    runner: Runner, limits: RunnerLimits, pages: int, workload: Workload, prompts: list[list[int]], vocab_size: int
) -> Run:  # fmt: skip
    """All prompts at once, without a prefix cache."""
    scheduler = _scheduler(runner, limits, pages, vocab_size)
    pipeline = Pipeline(runner)
    arrivals: dict[str, list[float]] = {str(index): [] for index in range(len(prompts))}
    started_s = time.perf_counter()
    for name, prompt in zip(arrivals, prompts, strict=True):
        scheduler.add(AddRequest(name, prompt, Sampling(temperature=0.0), seed=0, max_tokens=workload.output_tokens))
    while scheduler.has_work or pipeline.oldest is not None:
        while not pipeline.full and (plan := scheduler.plan()) is not None:
            pipeline.submit(plan)
        outputs, _ = scheduler.commit(pipeline.collect(), 0.0)
        now_s = time.perf_counter()
        for output in outputs:
            arrivals[output.id] += [now_s] * len(output.token_ids)
    seconds = time.perf_counter() - started_s
    pipeline.reset()
    return Run("octavo", workload, seconds, steady_rate(list(arrivals.values())))


def _scheduler(runner: Runner, limits: RunnerLimits, pages: int, vocab_size: int) -> Scheduler:
    """Prompts may take all of a step: what counts here is throughput."""
    admission = Limits(
        limits.max_model_len,
        pages,
        limits.page_size,
        vocab_size,
        limits.max_num_seqs,
        max_queued=1024,
        max_queued_tokens=None,
    )
    policy = Policy(limits.max_num_batched_tokens)
    return Scheduler(BlockPool(pages, limits.page_size), admission, policy, depth=runner.depth)
