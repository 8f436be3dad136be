"""Paged prefill attention against the torch reference over permuted, poisoned pages."""

import pytest
import torch

from octavo_kernels.gpu.prefill_attention import launch_of, prefill_attention
from octavo_kernels.page_layout import PageLayout
from octavo_kernels.paged_batch import AttentionOptions, PagedBatch
from tests.kernels.gpu.paged import PagedCase, check_close, paged_case

WIDE, HALF = torch.float32, torch.float16


def run(case: PagedCase, options: AttentionOptions, longest: int) -> torch.Tensor:
    out = case.poisoned_out()
    prefill_attention(case.q, case.kv_layer, case.batch, case.layout, options, out, longest)
    return out


@pytest.mark.parametrize(
    ("layout", "group", "lengths"),
    [
        pytest.param(PageLayout(1, 64, 4, WIDE), 1, [(1, 1), (70, 70)], id="whole prompts"),
        pytest.param(
            PageLayout(2, 80, 4, WIDE), 3, [(5, 39), (0, 7), (24, 33)], id="chunks after a prefix, one without"
        ),
        pytest.param(PageLayout(1, 128, 16, HALF), 8, [(33, 97)], id="a block over tiles in fp16"),
        pytest.param(PageLayout(1, 64, 128, WIDE), 3, [(22, 131)], id="pages longer than tiles"),
        pytest.param(PageLayout(2, 96, 4, HALF, "fp8_head"), 3, [(9, 66), (2, 5)], id="fp8_head"),
        pytest.param(PageLayout(1, 80, 4, HALF, "fp8_token"), 1, [(40, 66)], id="fp8_token"),
        pytest.param(PageLayout(1, 80, 4, HALF, "int8_token"), 1, [(40, 66)], id="int8_token"),
    ],
)
def test_matches_the_reference(
    layout: PageLayout, group: int, lengths: list[tuple[int, int]], device: torch.device
) -> None:
    case = paged_case(layout, group, lengths, device, torch.int32 if layout.kv_heads == 1 else torch.int64)
    options = case.options()
    case.check(run(case, options, max(q_len for q_len, _ in lengths)), options)


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
def test_options(window: int | None, softcap: float | None, sinks: bool, device: torch.device) -> None:
    case = paged_case(PageLayout(1, 64, 4, WIDE), 3, [(30, 101)], device)
    options = case.options(window, softcap, sinks=sinks)
    case.check(run(case, options, 30), options)


@pytest.mark.parametrize(("window", "sinks"), [(None, False), (40, True)])
def test_tells_the_log_sums_of_its_rows(window: int | None, sinks: bool, device: torch.device) -> None:
    case = paged_case(PageLayout(1, 64, 4, WIDE), 3, [(30, 101), (5, 5)], device)
    options, out = case.options(window, sinks=sinks), case.poisoned_out()
    log_sums = torch.full(out.shape[:2], torch.nan, device=device)
    prefill_attention(case.q, case.kv_layer, case.batch, case.layout, options, out, 30, log_sums)
    case.check(out, options)
    case.check_log_sums(log_sums, options)


@pytest.mark.parametrize("window", [None, 40], ids=["causal", "window"])
def test_a_prompt_in_chunks_has_the_bits_of_the_whole(window: int | None, device: torch.device) -> None:
    case = paged_case(PageLayout(1, 64, 4, WIDE), 3, [(60, 80)], device)
    whole = run(case, case.options(window), 60)
    for begin, end in ((0, 7), (7, 41), (41, 60)):
        batch = PagedBatch(
            torch.tensor([begin, end], dtype=torch.int32, device=device),
            torch.tensor([20 + end], dtype=torch.int32, device=device),
            case.batch.page_table,
        )
        out = run(PagedCase(case.layout, case.q, case.kv_layer, batch, None), case.options(window), end - begin)
        # Interpreted, products are numpy's, whose last bit depends on a row's place among the others.
        tolerance = 0.0 if device.type == "cuda" else 1e-6
        check_close(out[begin:end], whole[begin:end], tolerance)


def test_refuses_a_group_that_no_tile_holds() -> None:
    with pytest.raises(ValueError, match="at most 128 query heads a KV head, not 129"):
        launch_of(PageLayout(1, 64, 16, HALF), 129)


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        pytest.param(PageLayout(1, 80, 4, WIDE), "does not fit 1 KV heads of 80", id="head dimension"),
        pytest.param(PageLayout(2, 64, 4, WIDE), "does not fit 2 KV heads of 64", id="heads"),
        pytest.param(PageLayout(1, 64, 8, WIDE), "needs 4096 bytes", id="longer pages"),
        pytest.param(PageLayout(1, 64, 4, torch.float64), "not for torch.float64", id="type"),
        pytest.param(
            PageLayout(1, 64, 4, WIDE, "fp8_head"), "head_scales belong to the format fp8_head", id="no scales"
        ),
    ],
)
def test_refuses_what_does_not_fit(layout: PageLayout, message: str, device: torch.device) -> None:
    case = paged_case(PageLayout(1, 64, 4, WIDE), 3, [(2, 5)], device)
    with pytest.raises(ValueError, match=message):
        prefill_attention(case.q, case.kv_layer, case.batch, layout, case.options(), case.poisoned_out(), 2)
