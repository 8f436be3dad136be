"""Answers over two parts of a context, merged: against the torch reference, and against attention over all of it."""

import pytest
import torch
from torch import Tensor

from octavo_kernels import reference
from octavo_kernels.gpu.merge_parts import merge_parts
from tests.kernels.gpu.paged import check_close

NOTHING = -torch.inf


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [pytest.param(torch.float32, 2e-6, id="fp32"), pytest.param(torch.float16, 2**-9, id="fp16")],
)
@pytest.mark.parametrize(
    ("tokens", "heads", "width"),
    [pytest.param(*shape, id="x".join(map(str, shape))) for shape in ((0, 2, 8), (1, 1, 1), (3, 5, 80), (17, 3, 256))],
)
def test_matches_the_reference(
    tokens: int, heads: int, width: int, dtype: torch.dtype, tolerance: float, device: torch.device
) -> None:
    random = torch.Generator().manual_seed(tokens)
    first, second = torch.randn(2, tokens, heads, width, generator=random).to(device)
    logs = (torch.randn(2, tokens, heads, generator=random) * 20).to(device)
    out = torch.full(first.shape, torch.nan, dtype=dtype, device=device)
    merge_parts(first, logs[0], second, logs[1], out)
    check_close(out, reference.merge_parts(first, logs[0], second, logs[1]), tolerance)


@pytest.mark.parametrize(
    ("logs", "expected"),
    [
        pytest.param((NOTHING, 3.0), 2.0, id="nothing in the first"),
        pytest.param((-90.0, NOTHING), 1.0, id="nothing in the second"),
        pytest.param((NOTHING, NOTHING), 0.0, id="nothing at all"),
        pytest.param((500.0, 500.0), 1.5, id="equal and beyond what exp can hold"),
        pytest.param((-500.0, -500.0), 1.5, id="equal and below it"),
    ],
)
def test_a_part_that_saw_nothing_is_not_read(logs: tuple[float, float], expected: float, device: torch.device) -> None:
    """What saw nothing holds NaN."""
    first, second = (
        torch.full((1, 1, 5), torch.nan if log == NOTHING else value, device=device)
        for log, value in zip(logs, (1.0, 2.0), strict=True)
    )
    sums = [torch.full((1, 1), log, device=device) for log in logs]
    assert reference.merge_parts(first, sums[0], second, sums[1]).tolist() == [[[expected] * 5]]
    merge_parts(first, sums[0], second, sums[1], first)
    assert first.tolist() == [[[expected] * 5]]


@pytest.mark.parametrize("begin", [0, 1, 6, 11])
def test_the_parts_of_a_context_give_what_all_of_it_gives(begin: int, device: torch.device) -> None:
    random = torch.Generator().manual_seed(begin)
    score, values = (
        torch.randn(2, 3, 11, generator=random).to(device) * 5,
        torch.randn(11, 16, generator=random).to(device),
    )
    parts = [_answer(score[..., some], values[some]) for some in (slice(0, begin), slice(begin, None))]
    out = torch.empty(2, 3, 16, device=device)
    merge_parts(*parts[0], *parts[1], out)
    check_close(out, _answer(score, values)[0], 2e-6)


def _answer(score: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    return (torch.softmax(score, -1) @ values).contiguous(), torch.logsumexp(score, -1)
