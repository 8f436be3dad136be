"""The runner that a loaded model's device takes, and what it does before it serves."""

from collections.abc import Callable

from octavo_runtime.engine.device_runner import DeviceRunner, RunnerLimits
from octavo_runtime.engine.late import LateCompilations
from octavo_runtime.engine.loading import LoadedModel
from octavo_runtime.engine.pipeline import Runner
from octavo_runtime.engine.ranks.leader import Leader
from octavo_runtime.engine.ranks.membership import Ranks
from octavo_runtime.engine.ranks.runner import RankRunner
from octavo_runtime.engine.runner import ModelRunner
from octavo_runtime.engine.tiers.page_mover import HostMover, PageMover
from octavo_runtime.engine.warmup import Part
from octavo_runtime.model.overflow import Overflow, PagesBelow


def new_runner(
    loaded: LoadedModel,
    max_num_seqs: int,
    max_num_batched_tokens: int,
    ranks: Ranks | None = None,
    overflow: Overflow | PagesBelow | None = None,
) -> Runner:
    """For steps of at most so many sequences and tokens; `ranks` where the model is shared."""
    if loaded.device.type == "cpu":
        parts = loaded.decoder, loaded.backend, loaded.pool, loaded.block_size, max_num_seqs, loaded.max_model_len
        if ranks is not None:
            return RankRunner(*parts, ranks.collectives, max_num_batched_tokens)
        return ModelRunner(*parts)
    from octavo_runtime.engine import gpu_model  # imports Triton, which a start on a CPU does not wait for

    limits = RunnerLimits(loaded.block_size, max_num_seqs, loaded.max_model_len, max_num_batched_tokens)
    assert not isinstance(overflow, PagesBelow)
    collectives = ranks.collectives if ranks is not None else None
    return gpu_model.new_runner(loaded.decoder, loaded.backend, loaded.pool, limits, collectives, overflow)


def new_page_mover(loaded: LoadedModel, runner: Runner, leader: Leader | None = None) -> PageMover:
    """What moves pages between the model's pool and the tiers below it; with a leader, of all ranks."""
    if not isinstance(runner, DeviceRunner):
        return HostMover(loaded.pool if leader is None else leader.all_pools(loaded.pool))
    from octavo_runtime.engine import gpu_model

    return gpu_model.new_page_mover(loaded.pool, runner)


def prepare(runner: Runner, progress: Callable[[int], None]) -> None:
    """What `device_parts` does, at once: on a rank that follows another through its warm-up."""
    if isinstance(runner, DeviceRunner):
        runner.warm_up(progress)


def device_parts(runner: Runner) -> list[Part]:
    """Of warm-up: a GPU records its decode steps and compiles its kernels; a CPU has nothing to prepare."""
    if not isinstance(runner, DeviceRunner):
        return []
    # Recording gives cached memory back to the driver, so the largest steps come after it.
    return [
        Part("recording decode steps", runner.record(), bounded=False),
        Part("steps of every kind", runner.rehearse(), bounded=False),
        Part("steps over pages below the pool", runner.measure(), bounded=False),
    ]


def count_late(runner: Runner, late: LateCompilations) -> None:
    """From here on, what is compiled is late."""
    if isinstance(runner, DeviceRunner):
        from octavo_runtime.engine import gpu_model

        gpu_model.report_compiles(late.met)
