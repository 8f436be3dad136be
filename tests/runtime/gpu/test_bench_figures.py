"""The arithmetic of the GPU benchmark."""

import pytest

from bench.gpu.figures import LLAMA_8B, Run, Workload, bandwidth_share, steady_rate, step_bytes, table


def test_the_steady_rate_counts_only_while_all_sequences_decode() -> None:
    assert steady_rate([[0.0, 1.0, 2.0, 3.0, 4.0], [2.0, 3.0, 4.0, 5.0]]) == 2.0
    assert steady_rate([[0.0, 1.0], [1.5, 2.0]]) is None


def test_a_step_reads_the_weights_and_every_context() -> None:
    """Llama 3.1 8B: 8.03e9 parameters less 0.53e9 of the embedding; 128 KiB a token of context in bf16."""
    empty, full = Workload(1, 0, 0), Workload(32, 1000, 0)
    assert step_bytes(LLAMA_8B, empty, 2) == pytest.approx(2 * (8.03e9 - 0.525e9), rel=1e-3)
    assert step_bytes(LLAMA_8B, full, 2) - step_bytes(LLAMA_8B, empty, 2) == 32 * 1000 * 128 * 1024


def test_the_share_is_the_shortest_time_over_the_time_taken() -> None:
    workload = Workload(4, 100, 20)
    run = Run("octavo", workload, seconds=2.0, decode_tokens_s=400.0)
    bandwidth = step_bytes(LLAMA_8B, workload, 2) / 0.005
    assert run.output_tokens_s == 40.0
    assert run.step_ms == 10.0
    assert bandwidth_share(run, LLAMA_8B, bandwidth) == pytest.approx(0.5)
    never = Run("transformers", workload, seconds=4.0, decode_tokens_s=None)
    rows = table([never, run], LLAMA_8B, bandwidth).splitlines()[2:]
    assert rows == ["| 4 | transformers | 20 | – | – | – |", "| 4 | octavo | 40 | 400 | 10.00 | 50% |"]
