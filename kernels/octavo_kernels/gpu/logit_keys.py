"""Thresholds over a row of logits, found without sorting it: what top_k, min_p and top_p leave.

A logit becomes a 32-bit key of the same order, and the key sought is built from its highest bits down, two bits a pass over the row
(which stays in L2): the largest key such that the tokens at or above it are k, or hold the mass p. Triton has no closures, so each
pass loads its tiles itself. `size` is the vocabulary's, `tile` how many logits a program holds at once.
"""

import triton
import triton.language as tl

# The key of −inf: tokens at or below it cannot be drawn.
NEVER = tl.constexpr(0x007FFFFF)
_SIGN = tl.constexpr(0x80000000)


@triton.jit
def key_of(x: tl.tensor) -> tl.tensor:
    """fp32 → uint32 of the same order; −0 and 0 are one key."""
    bits = tl.where(x == 0.0, 0.0, x).to(tl.uint32, bitcast=True)
    return tl.where(bits >= _SIGN, ~bits, bits | _SIGN)


@triton.jit
def logit_of(key: tl.tensor) -> tl.tensor:
    """The inverse of `key_of`."""
    return tl.where(key >= _SIGN, key ^ _SIGN, ~key).to(tl.float32, bitcast=True)


@triton.jit
def load_logits(row_ptr: tl.tensor, start: tl.int32, size: tl.int32, tile: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """A tile's token ids, int32, and logits, fp32; −inf beyond the vocabulary."""
    ids = start + tl.arange(0, tile)
    return ids, tl.load(row_ptr + ids, mask=ids < size, other=-float("inf")).to(tl.float32)


@triton.jit
def weight_of(x: tl.tensor, top: tl.float32, temperature: tl.float64) -> tl.tensor:
    """The probability of a logit relative to that of the largest, `top`; fp32, to a few millionths."""
    return tl.exp((x - top) * (1.0 / temperature).to(tl.float32))


@triton.jit
def largest_key(
    row_ptr: tl.tensor,
    size: tl.int32,
    wanted: tl.float64,
    floor: tl.uint32,
    top: tl.float32,
    temperature: tl.float64,
    by_mass: tl.constexpr,
    tile: tl.constexpr,
) -> tl.tensor:
    """The largest key, at least `floor`, such that the tokens at or above it number `wanted` or, by mass, weigh so much."""
    found = tl.full((), 0, tl.uint32)
    for level in range(16):
        step = tl.full((), 1, tl.uint32) << (30 - 2 * level)
        first = tl.full((tile,), 0.0, tl.float32)
        second = tl.full((tile,), 0.0, tl.float32)
        third = tl.full((tile,), 0.0, tl.float32)
        for start in range(0, size, tile):
            ids, x = load_logits(row_ptr, start, size, tile)
            amount = weight_of(x, top, temperature) if by_mass else tl.full((tile,), 1.0, tl.float32)
            key = tl.where(ids < size, key_of(x), 0)
            first += tl.where(key >= found + step, amount, 0.0)
            second += tl.where(key >= found + 2 * step, amount, 0.0)
            third += tl.where(key >= found + 3 * step, amount, 0.0)
        # Sums fall as keys rise, so the digit is the number of steps that still hold enough.
        digit = _enough(first, wanted, found + step, floor)
        digit += _enough(second, wanted, found + 2 * step, floor)
        digit += _enough(third, wanted, found + 3 * step, floor)
        found += digit * step
    return found


@triton.jit
def _enough(amounts: tl.tensor, wanted: tl.float64, key: tl.uint32, floor: tl.uint32) -> tl.tensor:
    return ((tl.sum(amounts.to(tl.float64)) >= wanted) | (key <= floor)).to(tl.uint32)


@triton.jit
def amount_above(
    row_ptr: tl.tensor,
    size: tl.int32,
    edge: tl.uint32,
    top: tl.float32,
    temperature: tl.float64,
    by_mass: tl.constexpr,
    tile: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """Of the tokens whose key is above `edge` the number or mass, fp64, and how many are at it, int32."""
    above = tl.full((tile,), 0.0, tl.float32)
    at = tl.full((tile,), 0, tl.int32)
    for start in range(0, size, tile):
        ids, x = load_logits(row_ptr, start, size, tile)
        amount = weight_of(x, top, temperature) if by_mass else tl.full((tile,), 1.0, tl.float32)
        key = key_of(x)
        above += tl.where((ids < size) & (key > edge), amount, 0.0)
        at += ((ids < size) & (key == edge)).to(tl.int32)
    return tl.sum(above.to(tl.float64)), tl.sum(at)


@triton.jit
def key_of_weight(least: tl.float64, top: tl.float32, temperature: tl.float64) -> tl.tensor:
    """The smallest key whose relative probability is at least `least`, in (0, 1]: exact in fp64, and needs no look at the row."""
    below = tl.full((), 0, tl.uint32)
    scaled_top = top.to(tl.float64) / temperature
    for level in range(32):
        trial = below | (tl.full((), 1, tl.uint32) << (31 - level))
        exponent = logit_of(trial).to(tl.float64) / temperature - scaled_top
        below = tl.where(tl.exp(tl.minimum(exponent, 0.0)) < least, trial, below)
    return below + 1


@triton.jit
def last_tie(row_ptr: tl.tensor, size: tl.int32, edge: tl.uint32, ties: tl.int32, tile: tl.constexpr) -> tl.tensor:
    """The id of the `ties`-th token, by id, whose key is `edge`: those up to it stay. −1 for none."""
    last = tl.full((), -1, tl.int32)
    seen = tl.full((), 0, tl.int32)
    for start in range(0, size, tile):
        ids, x = load_logits(row_ptr, start, size, tile)
        tie = ((ids < size) & (key_of(x) == edge)).to(tl.int32)
        rank = seen + tl.cumsum(tie, 0)
        last = tl.maximum(last, tl.max(tl.where((tie > 0) & (rank <= ties), ids, -1)))
        seen += tl.sum(tie)
    return last
