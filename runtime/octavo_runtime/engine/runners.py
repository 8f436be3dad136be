"""The runner that a loaded model's device takes, and what it does before it serves."""

from collections.abc import Callable

from octavo_runtime.engine.device_runner import DeviceRunner, RunnerLimits
from octavo_runtime.engine.loading import LoadedModel
from octavo_runtime.engine.pipeline import Runner
from octavo_runtime.engine.runner import ModelRunner


def new_runner(loaded: LoadedModel, max_num_seqs: int, max_num_batched_tokens: int) -> Runner:
    """For steps of at most so many sequences and tokens."""
    if loaded.device.type == "cpu":
        return ModelRunner(
            loaded.decoder, loaded.backend, loaded.pool, loaded.block_size, max_num_seqs, loaded.max_model_len
        )
    from octavo_runtime.engine import gpu_model  # imports Triton, which a start on a CPU does not wait for

    limits = RunnerLimits(loaded.block_size, max_num_seqs, loaded.max_model_len, max_num_batched_tokens)
    return gpu_model.new_runner(loaded.decoder, loaded.backend, loaded.pool, limits)


def prepare(runner: Runner, progress: Callable[[int], None]) -> None:
    """Before the engine's first batches: a GPU records its decode steps and compiles its kernels; a CPU has nothing to prepare."""
    if isinstance(runner, DeviceRunner):
        from octavo_runtime.engine import gpu_model

        runner.warm_up(progress)
        gpu_model.report_compiles()
