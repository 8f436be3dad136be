"""Each op written down once more, in float64 and in loops: what the torch references are compared with."""

import math

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def rms_norm(x: Array, weight: Array, eps: float) -> Array:
    out = np.empty_like(x)
    for index in np.ndindex(x.shape[:-1]):
        row = x[index]
        out[index] = row / math.sqrt(float(row @ row) / len(row) + eps) * weight
    return out


def rope(x: Array, cos: Array, sin: Array) -> Array:
    """x `[T, H, D]`, cos and sin `[T, D/2]`: the pair (i, i + D/2) as a complex number, turned."""
    half = x.shape[-1] // 2
    out = np.empty_like(x)
    for token, head, i in np.ndindex(x.shape[0], x.shape[1], half):
        turned = complex(x[token, head, i], x[token, head, half + i]) * complex(cos[token, i], sin[token, i])
        out[token, head, i], out[token, head, half + i] = turned.real, turned.imag
    return out


def silu_mul(x: Array) -> Array:
    half = x.shape[-1] // 2
    gate, up = x[..., :half], x[..., half:]
    return gate / (1.0 + np.exp(-gate)) * up


def attend(q: Array, k: Array, v: Array, window: int | None) -> Array:
    """One sequence: q `[R, Hq, D]` are its last R tokens, k and v `[S, Hkv, D]` all S of them, scale 1/√D → `[R, Hq, D]`."""
    rows, heads, width = q.shape
    slots, kv_heads, _ = k.shape
    out = np.zeros_like(q)
    for row, head in np.ndindex(rows, heads):
        own, kv_head = slots - rows + row, head // (heads // kv_heads)
        first = 0 if window is None else max(0, own - window + 1)
        scores = [float(q[row, head] @ k[slot, kv_head]) / math.sqrt(width) for slot in range(first, own + 1)]
        weights = [math.exp(score - max(scores)) for score in scores]
        for slot, weight in zip(range(first, own + 1), weights, strict=True):
            out[row, head] += weight / sum(weights) * v[slot, kv_head]
    return out


def attention_to_pages(q: Array, k: Array, page_size: int) -> Array:
    """What the rows of `attend` give to each page of k: a mean over heads, summed over rows → `[pages]`."""
    rows, heads, width = q.shape
    slots, kv_heads, _ = k.shape
    out = np.zeros(-(-slots // page_size))
    for row, head in np.ndindex(rows, heads):
        own, kv_head = slots - rows + row, head // (heads // kv_heads)
        weights = [math.exp(float(q[row, head] @ k[slot, kv_head]) / math.sqrt(width)) for slot in range(own + 1)]
        for slot, weight in enumerate(weights):
            out[slot // page_size] += weight / sum(weights) / heads
    return out
