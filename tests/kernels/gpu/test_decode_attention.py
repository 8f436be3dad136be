"""Paged decode attention against the torch reference over permuted, poisoned pages."""

import pytest
import torch

from octavo_kernels.gpu.decode_attention import decode_attention, split_count, workspace_floats
from octavo_kernels.page_layout import PageLayout
from octavo_kernels.paged_batch import AttentionOptions, PagedBatch
from tests.kernels.gpu.paged import PagedCase, paged_case

WIDE, HALF = torch.float32, torch.float16


def run(case: PagedCase, options: AttentionOptions, queries: int, splits: int) -> torch.Tensor:
    out = case.poisoned_out()
    floats = workspace_floats(case.batch.size * queries, case.q.shape[1], case.layout.head_dim, splits)
    workspace = torch.full((floats,), torch.nan, device=out.device)
    decode_attention(case.q, case.kv_layer, case.batch, case.layout, options, out, queries, splits, workspace)
    return out


@pytest.mark.parametrize(
    ("layout", "group", "lengths", "splits"),
    [
        pytest.param(PageLayout(2, 64, 4, WIDE), 1, [(1, 1), (1, 7)], 1, id="first slot"),
        pytest.param(PageLayout(1, 80, 4, WIDE), 3, [(1, 4), (1, 5), (1, 8)], 1, id="page edges"),
        pytest.param(PageLayout(1, 128, 16, WIDE), 8, [(1, 16), (1, 70)], 3, id="several tiles in 3 splits"),
        pytest.param(
            PageLayout(1, 64, 128, WIDE), 3, [(1, 33)], 4, id="more splits than tiles, pages longer than tiles"
        ),
        pytest.param(PageLayout(2, 64, 4, WIDE), 3, [(1, 9), (8, 8), (3, 40)], 2, id="up to 8 queries"),
        pytest.param(PageLayout(1, 96, 4, HALF), 8, [(8, 67)], 1, id="64 rows in fp16"),
        pytest.param(PageLayout(1, 64, 4, HALF), 1, [(0, 5), (1, 9), (1, 0)], 2, id="no queries, no context"),
        pytest.param(PageLayout(2, 80, 4, HALF, "fp8_head"), 3, [(1, 13), (2, 6)], 1, id="fp8_head in one part"),
        pytest.param(PageLayout(2, 128, 4, WIDE, "fp8_head"), 1, [(1, 67)], 2, id="fp8_head in two"),
        pytest.param(PageLayout(2, 80, 4, HALF, "fp8_token"), 3, [(1, 13), (2, 66)], 2, id="fp8_token"),
        pytest.param(PageLayout(2, 80, 4, HALF, "int8_token"), 3, [(1, 13), (2, 66)], 2, id="int8_token"),
    ],
)
def test_matches_the_reference(
    layout: PageLayout, group: int, lengths: list[tuple[int, int]], splits: int, device: torch.device
) -> None:
    case = paged_case(layout, group, lengths, device, torch.int32 if layout.kv_heads == 1 else torch.int64)
    options = case.options()
    case.check(run(case, options, max(q_len for q_len, _ in lengths), splits), options)


@pytest.mark.parametrize("splits", [1, 2])
@pytest.mark.parametrize(
    ("window", "softcap", "sinks"),
    [
        pytest.param(3, None, False, id="window within a page"),
        pytest.param(40, None, False, id="window over tiles"),
        pytest.param(None, 1.5, False, id="softcap"),
        pytest.param(None, None, True, id="sinks"),
        pytest.param(40, 1.5, True, id="all"),
    ],
)
def test_options(window: int | None, softcap: float | None, sinks: bool, splits: int, device: torch.device) -> None:
    case = paged_case(PageLayout(1, 64, 4, WIDE), 3, [(1, 71), (3, 6)], device)
    options = case.options(window, softcap, sinks=sinks)
    case.check(run(case, options, 3, splits), options)


@pytest.mark.parametrize("splits", [1, 3])
@pytest.mark.parametrize(("window", "sinks"), [(None, False), (40, True)])
def test_tells_the_log_sums_of_its_rows(window: int | None, sinks: bool, splits: int, device: torch.device) -> None:
    case = paged_case(PageLayout(1, 64, 4, WIDE), 3, [(1, 71), (3, 6), (0, 5), *([] if sinks else [(2, 0)])], device)
    options = case.options(window, sinks=sinks)
    floats = workspace_floats(case.batch.size * 3, 3, 64, splits)
    workspace = torch.full((floats,), torch.nan, device=device)
    out = case.poisoned_out()
    log_sums = torch.full(out.shape[:2], torch.nan, device=device)
    decode_attention(case.q, case.kv_layer, case.batch, case.layout, options, out, 3, splits, workspace, log_sums)
    case.check(out, options)
    case.check_log_sums(log_sums, options)


def test_a_sequence_has_the_same_bits_in_every_company(device: torch.device) -> None:
    case = paged_case(PageLayout(1, 64, 4, WIDE), 3, [(1, 71), (1, 6)], device)
    together = run(case, case.options(), 1, 2)
    batch = case.batch
    for row in (0, 1):
        alone = PagedBatch(batch.cu_q[row : row + 2], batch.kv_len[row : row + 1], batch.page_table[row : row + 1])
        part = PagedCase(case.layout, case.q, case.kv_layer, alone, None)
        assert torch.equal(run(part, case.options(), 1, 2)[row], together[row])


@pytest.mark.parametrize(
    ("batch", "kv_heads", "expected"),
    [
        pytest.param(1, 8, 32, id="one sequence: as many as joining bears"),
        pytest.param(8, 8, 4, id="some"),
        pytest.param(128, 8, 1, id="a full batch needs none"),
    ],
)
def test_split_count_fills_the_processors_twice(batch: int, kv_heads: int, expected: int) -> None:
    assert split_count(batch, kv_heads, processors=132) == expected


@pytest.mark.parametrize(
    ("queries", "splits", "workspace", "message"),
    [
        pytest.param(9, 1, 0, "1 to 8 new tokens", id="too many queries"),
        pytest.param(1, 2, 3 * 2 * 66 - 1, "workspace of 396 fp32", id="short workspace"),
    ],
)
def test_refuses(queries: int, splits: int, workspace: int, message: str, device: torch.device) -> None:
    case = paged_case(PageLayout(1, 64, 4, WIDE), 3, [(1, 5)], device)
    floats = torch.empty(workspace, device=device)
    with pytest.raises(ValueError, match=message):
        decode_attention(
            case.q, case.kv_layer, case.batch, case.layout, case.options(), case.poisoned_out(), queries, splits, floats
        )
