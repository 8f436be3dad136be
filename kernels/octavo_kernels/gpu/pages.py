"""Whole pages as bytes, in all layers at once: copied within the pool, gathered into a staging buffer for a tier, scattered back.

A pool is uint8 `[L, pages, page_bytes]`, a staging buffer uint8 `[n, L, page_bytes]`: a page's layers one after the other, so
that what a tier stores of a page is one run of bytes.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase

WORD_BYTES = 8
WORDS_A_PROGRAM = 2048  # 16 KiB: 128 bytes a thread of 4 warps, in loads of 16


@triton.jit(
    do_not_specialize=["source_layer", "source_page", "target_layer", "target_page", "words"],
    do_not_specialize_on_alignment=["sources", "targets"],
)
def _move_kernel(
    source: tl.tensor,
    target: tl.tensor,
    sources: tl.tensor,
    targets: tl.tensor,
    source_layer: tl.tensor,
    source_page: tl.tensor,
    target_layer: tl.tensor,
    target_page: tl.tensor,
    words: tl.tensor,
    words_a_program: tl.constexpr,
) -> None:
    """Grid (n, L, parts of a page). Page i of a list, or page i itself where there is none. Strides in words of 8 bytes."""
    index = tl.program_id(0).to(tl.int64)
    layer = tl.program_id(1).to(tl.int64)
    source_index = index
    if sources is not None:
        source_index = tl.load(sources + index)
    target_index = index
    if targets is not None:
        target_index = tl.load(targets + index)
    word = tl.program_id(2) * words_a_program + tl.arange(0, words_a_program)
    # A page is whole 16 bytes and begins at such a place: pairs of words may be loaded as one.
    source_at = source + tl.multiple_of(source_index * source_page + layer * source_layer, 2)
    target_at = target + tl.multiple_of(target_index * target_page + layer * target_layer, 2)
    content = tl.load(source_at + word, mask=word < words)
    tl.store(target_at + word, content, mask=word < words)


def copy_pages(pool: Tensor, sources: Tensor, targets: Tensor) -> None:
    """`pool[:, targets[i]] = pool[:, sources[i]]`; sources and targets int64 `[n]` on the pool's device.

    All copies run at once, so no page may be a target twice, or a source and another copy's target: `refuse_chains` checks a
    list on the host. No host synchronisation, no allocation.
    """
    _move(pool, pool, sources, targets, len(sources))


def gather_pages(pool: Tensor, pages: Tensor, staging: Tensor) -> None:
    """`staging[i] = pool[:, pages[i]]` for int64 pages `[n]` on the pool's device."""
    _move(pool, _by_layer(staging, len(pages)), pages, None, len(pages))


def scatter_pages(staging: Tensor, pool: Tensor, pages: Tensor) -> None:
    """`pool[:, pages[i]] = staging[i]` for int64 pages `[n]` on the pool's device, none twice."""
    _move(_by_layer(staging, len(pages)), pool, None, pages, len(pages))


def refuse_chains(copies: Sequence[tuple[int, int]]) -> None:
    """ValueError where the order of copies (source, target) would matter."""
    targets = [target for _, target in copies]
    if len(set(targets)) < len(targets):
        raise ValueError(f"page {max(targets, key=targets.count)} is the target of two copies")
    read = {source for source, target in copies if source != target} & set(targets)
    if read:
        raise ValueError(f"page {min(read)} is a source and a target: copy in two calls")


def _by_layer(staging: Tensor, pages: int) -> Tensor:
    if staging.dim() != 3 or staging.shape[0] < pages:
        raise ValueError(
            f"a staging buffer for {pages} pages is [≥ {pages}, L, page_bytes], not {tuple(staging.shape)}"
        )
    return staging.transpose(0, 1)


def _move(source: Tensor, target: Tensor, sources: Tensor | None, targets: Tensor | None, count: int) -> None:
    for tensor in (source, target):
        if tensor.dtype != torch.uint8 or tensor.dim() != 3 or tensor.stride(2) != 1:
            raise ValueError(f"pages are uint8 [L, pages, page_bytes], not {tensor.dtype} {tuple(tensor.shape)}")
        if any(size % 16 for size in (tensor.shape[2], *tensor.stride()[:2], tensor.data_ptr())):
            raise ValueError(
                f"pages begin at and consist of multiples of 16 bytes, not {tensor.stride()} of {tensor.shape[2]}"
            )
    if (source.shape[0], source.shape[2]) != (target.shape[0], target.shape[2]):
        raise ValueError(f"pages of {tuple(source.shape)} do not fit {tuple(target.shape)}: layers or bytes differ")
    layers, _, page_bytes = source.shape
    if not count:
        return
    words = page_bytes // WORD_BYTES
    from_words, to_words = source.view(torch.int64), target.view(torch.int64)
    _move_kernel[(count, layers, triton.cdiv(words, WORDS_A_PROGRAM))](
        from_words, to_words, sources, targets, *from_words.stride()[:2], *to_words.stride()[:2], words,
        words_a_program=WORDS_A_PROGRAM, num_warps=4, enable_fp_fusion=False,
    )  # fmt: skip


def aot_cases() -> list[AotCase]:
    words = {"source_layer": "i64", "source_page": "i64", "target_layer": "i64", "target_page": "i64", "words": "i32"}
    lists = {"copy": ("sources", "targets"), "gather": ("sources",), "scatter": ("targets",)}
    return [
        AotCase(
            f"pages-{name}",
            _move_kernel,
            {"source": "*i64", "target": "*i64", **dict.fromkeys(given, "*i64"), **words},
            {**{key: None for key in ("sources", "targets") if key not in given}, "words_a_program": WORDS_A_PROGRAM},
            enable_fp_fusion=False,
        )
        for name, given in lists.items()
    ]
