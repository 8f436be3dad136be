"""The attention that pages get against the torch reference over permuted, poisoned pages."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from octavo_kernels import reference, reference_paged
from octavo_kernels.gpu.page_importance import page_importance
from octavo_kernels.page_layout import PageLayout
from octavo_kernels.paged_batch import AttentionOptions
from tests.kernels.gpu.paged import TOLERANCE, PagedCase, paged_case

WIDE, HALF = torch.float32, torch.float16
BEFORE = 0.25  # what lies in mass already


def expected(case: PagedCase, index: int, scale: float) -> Tensor:
    """By the definition, of one sequence."""
    layout, batch = case.layout, case.batch
    begin, end, slots = int(batch.cu_q[index]), int(batch.cu_q[index + 1]), int(batch.kv_len[index])
    pages = batch.page_table[index, : -(-slots // layout.page_size)].long().cpu()
    scales = None if case.head_scales is None else case.head_scales.cpu()
    k = reference_paged.read_kv(case.kv_layer.cpu(), pages, layout, scales)[0, :slots].transpose(0, 1)
    k = functional.pad(k, (0, 0, 0, len(pages) * layout.page_size - slots))
    visible = reference.visible_slots(torch.arange(slots - (end - begin), slots), k.shape[1], None)
    return reference.attention_to_pages(case.q[begin:end].cpu(), k, visible, scale, layout.page_size)


@pytest.mark.parametrize(
    ("layout", "group", "lengths", "chosen"),
    [
        pytest.param(PageLayout(2, 64, 4, WIDE), 3, [(1, 1), (1, 70), (1, 33), (1, 4)], [1, 3], id="single tokens"),
        pytest.param(PageLayout(2, 80, 4, WIDE), 3, [(24, 33), (0, 7), (5, 39)], [0, 2], id="chunks after a prefix"),
        pytest.param(PageLayout(1, 64, 64, WIDE), 3, [(30, 131)], [0], id="pages longer than tiles"),
        pytest.param(PageLayout(1, 96, 16, HALF, "fp8_head"), 3, [(9, 66)], [0], id="fp8_head"),
        pytest.param(PageLayout(1, 80, 32, HALF, "fp8_token"), 1, [(1, 66), (40, 66)], [0, 1], id="fp8_token"),
    ],
)
def test_matches_the_reference(
    layout: PageLayout, group: int, lengths: list[tuple[int, int]], chosen: list[int], device: torch.device
) -> None:
    case = paged_case(layout, group, lengths, device)
    options = case.options()
    mass = torch.full((len(chosen), case.batch.page_table.shape[1]), BEFORE, device=device)
    rows = torch.tensor(chosen, dtype=torch.int32, device=device)
    longest = max(lengths[index][0] for index in chosen)
    page_importance(case.q, case.kv_layer, case.batch, layout, options, rows, mass, longest)
    tolerance = TOLERANCE[layout.dtype]
    for index, given in zip(chosen, mass.cpu().numpy(), strict=True):
        wanted = expected(case, index, options.scale).numpy()
        np.testing.assert_allclose(given[: len(wanted)] - BEFORE, wanted, rtol=tolerance * 8, atol=tolerance * 8)
        assert (given[len(wanted) :] == BEFORE).all()


def test_refuses_what_is_no_full_attention() -> None:
    case = paged_case(PageLayout(1, 64, 4, WIDE), 1, [(1, 4)], torch.device("cpu"))
    options = AttentionOptions(1.0, window=3)
    with pytest.raises(ValueError, match="without window, softcap and sinks"):
        page_importance(
            case.q, case.kv_layer, case.batch, case.layout, options, torch.zeros(1), torch.zeros(1, 1), longest=1
        )
