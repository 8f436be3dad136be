"""Counter-based random numbers: Philox-4x32-10 and the Gumbel noise of the sampler.

The noise of a draw depends on the request's seed, the absolute position of the token that is drawn and the token id, and on nothing
else: not on the batch, the step, or what ran before (https://www.thesalmons.org/john/random123/papers/random123sc11.pdf).
One Philox block gives four words, so token ids 4i … 4i + 3 share the counter (i, position, 0, 0).
"""

import numpy as np
import numpy.typing as npt

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_SHIFT = np.uint64(32)
_ROUNDS = 10

Words = npt.NDArray[np.uint64]


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Ten rounds over counters of equal shape, each word below 2³² in a uint64; key: two 32-bit words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(_ROUNDS):
        first, second = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (
            (second >> _SHIFT) ^ c1 ^ np.uint64(k0),
            second & _LOW,
            (first >> _SHIFT) ^ c3 ^ np.uint64(k1),
            first & _LOW,
        )
        k0, k1 = (k0 + _WEYL[0]) & 0xFFFFFFFF, (k1 + _WEYL[1]) & 0xFFFFFFFF
    return c0, c1, c2, c3


def gumbel(seed: int, position: int, token_ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
    """−log(−log u) for each token id of a draw at `position` (tokens before it), u uniform in (0, 1) with 24 bits.

    seed: 0 … 2⁶⁴ − 1. The argmax of logits / temperature + this noise is a draw from their softmax (Gumbel-max).
    """
    blocks, index = _blocks(token_ids >> 2)
    zero = np.zeros(len(blocks), dtype=np.uint64)
    counter = (blocks.astype(np.uint64), zero + np.uint64(position), zero, zero)
    words = np.stack(philox(counter, (seed & 0xFFFFFFFF, seed >> 32)))
    drawn = words[token_ids & 3, index]
    uniform = ((drawn >> np.uint64(8)).astype(np.float64) + 0.5) / 2.0**24
    noise: npt.NDArray[np.float32] = (-np.log(-np.log(uniform))).astype(np.float32)
    return noise


def _blocks(wanted: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The blocks to compute and, for each wanted one, where it is among them: a whole range where the wanted ones fill it."""
    first, last = int(wanted.min()), int(wanted.max())
    if last - first < len(wanted):
        return np.arange(first, last + 1), wanted - first
    return wanted, np.arange(len(wanted))
