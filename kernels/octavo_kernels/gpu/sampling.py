"""Drawing the next token of each row: temperature, min_p, top_k, top_p, Gumbel-max with Philox noise; ties go to the lowest id.

What it draws is what the runtime's sampler on the CPU draws from the same logits: top_k and min_p exactly; a top_p set may end one
token earlier or later only where the cumulative probability is within a few millionths of top_p (probabilities are fp32 here). The
noise has the bits of `octavo_kernels.philox.gumbel`, so its logarithms are fp64. One program draws one row, in passes over it: the
row stays in L2, and nothing depends on the other rows. Everything is decided on the device, so a launch needs no value on the host.
"""

import dataclasses

import torch
import triton
import triton.language as tl
from torch import Tensor

from octavo_kernels.gpu.aot_case import AotCase
from octavo_kernels.gpu.logit_keys import (
    NEVER,
    amount_above,
    key_of,
    key_of_weight,
    largest_key,
    last_tie,
    load_logits,
    logit_of,
    weight_of,
)

# Logits that a program holds at once, and its warps. Not measured yet: a pass is bound by latency, so few and large tiles.
_TILE, _WARPS = 4096, 16
# The noise lies between −2.9 and 17.4, so a token more than 20.3 below the largest cannot be drawn; the rest is for rounding.
NOISE_RANGE = tl.constexpr(20.5)
_NO_ID = tl.constexpr(0x7FFFFFFF)


@dataclasses.dataclass(frozen=True)
class SamplingRows:
    """The parameters of R rows on the device, one value a row; the meaning and the limits are those of `messages.Sampling`.

    temperature, top_p and min_p fp64 (they are compared as the CPU compares them); top_k int32; seed int64, the bits of
    0 … 2⁶⁴ − 1; position int64, the tokens before the drawn one. Temperature 0 is greedy and ignores the others.
    """

    temperature: Tensor
    top_k: Tensor
    top_p: Tensor
    min_p: Tensor
    seed: Tensor
    position: Tensor


@triton.jit
def _lowest_best(best: tl.tensor, ids: tl.tensor) -> tl.tensor:
    return tl.min(tl.where(best == tl.max(best), ids, _NO_ID))


@triton.jit
def gumbel(seed: tl.int64, position: tl.int64, start: tl.int32, tile: tl.constexpr) -> tl.tensor:
    """The noise of token ids start … start + tile − 1, fp32 `[tile]`; start is a multiple of 4."""
    block = (start // 4 + tl.arange(0, tile // 4)).to(tl.uint32)
    zero = tl.zeros_like(block)
    w0, w1, w2, w3 = tl.philox(seed, block, zero + position.to(tl.uint32), zero, zero)
    words = tl.interleave(tl.interleave(w0, w2), tl.interleave(w1, w3))
    uniform = ((words >> 8).to(tl.float64) + 0.5) * (2.0**-24)
    return (-tl.log(-tl.log(uniform))).to(tl.float32)


@triton.jit
def kept_set(
    row_ptr: tl.tensor,
    size: tl.int32,
    top: tl.float32,
    temperature: tl.float64,
    top_k: tl.int32,
    top_p: tl.float64,
    min_p: tl.float64,
    tile: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """What min_p, top_k and top_p leave, as (edge, last): tokens whose key is above `edge`, and those at it up to the id `last`."""
    edge = tl.full((), NEVER, tl.uint32)
    ties = tl.full((), 0, tl.int32)  # how many of the tokens at the edge stay
    if min_p > 0.0:
        edge = tl.maximum(edge, key_of_weight(min_p, top, temperature))
        ties += size
    if top_k > 0:
        kth = largest_key(row_ptr, size, top_k.to(tl.float64), edge, top, temperature, False, tile)
        above, _ = amount_above(row_ptr, size, kth, top, temperature, False, tile)
        ties = top_k - above.to(tl.int32)
        edge = kth
    if top_p < 1.0:
        above, at = amount_above(row_ptr, size, edge, top, temperature, True, tile)
        ties = tl.minimum(ties, at)
        edge_weight = weight_of(logit_of(edge), top, temperature).to(tl.float64)
        wanted = top_p * (above + ties.to(tl.float64) * edge_weight)
        cut = largest_key(row_ptr, size, wanted, edge, top, temperature, True, tile)
        above, at = amount_above(row_ptr, size, cut, top, temperature, True, tile)
        needed = tl.ceil((wanted - above) / weight_of(logit_of(cut), top, temperature).to(tl.float64))
        ties = tl.minimum(tl.where(cut == edge, ties, at), tl.maximum(needed, 1.0).to(tl.int32))
        edge = cut
    last = tl.full((), -1, tl.int32)
    if ties > 0:
        last = last_tie(row_ptr, size, edge, ties, tile)
    return edge, last


@triton.jit
def _draw(
    row_ptr: tl.tensor,
    size: tl.int32,
    top: tl.float32,
    temperature: tl.float32,
    edge: tl.uint32,
    last: tl.int32,
    seed: tl.int64,
    position: tl.int64,
    tile: tl.constexpr,
) -> tl.tensor:
    """Gumbel-max over the kept set."""
    best = tl.full((tile,), -float("inf"), tl.float32)
    best_id = tl.full((tile,), _NO_ID, tl.int32)
    lowest = tl.div_rn(top, temperature) - NOISE_RANGE
    for start in range(0, size, tile):
        ids, x = load_logits(row_ptr, start, size, tile)
        key = key_of(x)
        kept = (ids < size) & ((key > edge) | ((key == edge) & (ids <= last)))
        scaled = tl.where(kept, tl.div_rn(x, temperature), -float("inf"))
        if tl.max(scaled) >= lowest:
            score = scaled + gumbel(seed, position, start, tile)
            best_id = tl.where(score > best, ids, best_id)
            best = tl.maximum(best, score)
    return _lowest_best(best, best_id)


@triton.jit(do_not_specialize=["size", "stride"])
def sample_kernel(
    logits_ptr: tl.tensor,
    temperature_ptr: tl.tensor,
    top_k_ptr: tl.tensor,
    top_p_ptr: tl.tensor,
    min_p_ptr: tl.tensor,
    seed_ptr: tl.tensor,
    position_ptr: tl.tensor,
    out_ptr: tl.tensor,
    size: tl.int32,
    stride: tl.int64,
    tile: tl.constexpr,
) -> None:
    row = tl.program_id(0)
    row_ptr = logits_ptr + row.to(tl.int64) * stride
    best = tl.full((tile,), -float("inf"), tl.float32)
    best_id = tl.full((tile,), _NO_ID, tl.int32)
    for start in range(0, size, tile):
        ids, x = load_logits(row_ptr, start, size, tile)
        best_id = tl.where((x > best) | (best_id == _NO_ID), ids, best_id)
        best = tl.maximum(best, x)
    token = _lowest_best(best, best_id)
    temperature = tl.load(temperature_ptr + row)
    if temperature > 0.0:
        top = tl.max(best)
        top_k, top_p, min_p = tl.load(top_k_ptr + row), tl.load(top_p_ptr + row), tl.load(min_p_ptr + row)
        edge, last = kept_set(row_ptr, size, top, temperature, top_k, top_p, min_p, tile)
        seed, position = tl.load(seed_ptr + row), tl.load(position_ptr + row)
        token = _draw(row_ptr, size, top, temperature.to(tl.float32), edge, last, seed, position, tile)
    tl.store(out_ptr + row, token.to(tl.int64))


def sample(logits: Tensor, rows: SamplingRows, out: Tensor) -> None:
    """The drawn token of each row of logits `[R, V]`, fp32 or bf16, last dimension contiguous → out int64 `[R]`.

    A token that may not be drawn has the logit −inf; each row has one that is not.
    """
    count, size = logits.shape
    assert logits.stride(1) == 1
    assert out.dtype == torch.int64
    assert out.shape == (count,)
    if count == 0:
        return
    sample_kernel[(count,)](
        logits,
        rows.temperature,
        rows.top_k,
        rows.top_p,
        rows.min_p,
        rows.seed,
        rows.position,
        out,
        size,
        logits.stride(0),
        tile=_TILE,
        num_warps=_WARPS,
        # A draw is compared with the CPU's, which rounds the product and the sum apart.
        enable_fp_fusion=False,
    )


def aot_cases() -> list[AotCase]:
    """The logits of the engine, fp32."""
    parameters = {
        "temperature": "fp64",
        "top_k": "i32",
        "top_p": "fp64",
        "min_p": "fp64",
        "seed": "i64",
        "position": "i64",
    }
    pointers = {"logits": "fp32", **parameters, "out": "i64"}
    signature = {**{f"{name}_ptr": f"*{kind}" for name, kind in pointers.items()}, "size": "i32", "stride": "i64"}
    return [AotCase("sample", sample_kernel, signature, {"tile": _TILE}, num_warps=_WARPS, enable_fp_fusion=False)]
