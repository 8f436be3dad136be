"""Drawing the next token of each row.

Temperature, then min_p, top_k and top_p over the scaled logits, then Gumbel-max with noise that depends on the request's seed, the
position and the token id alone: what a request draws does not depend on its company, and preemption does not change it. Ties go to
the lowest id on every path.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from octavo_kernels.philox import gumbel
from octavo_runtime.messages import Sampling

Logits = npt.NDArray[np.float32]
Ids = npt.NDArray[np.int64]

# Of the likeliest tokens, how many are looked at first: top_k and top_p sets are almost always inside, and a full sort of 49k
# logits costs 20 times as much.
_FIRST_LOOK = 1024


@dataclasses.dataclass(frozen=True)
class Row:
    """A draw after `position` tokens; `banned` ids may not be drawn (end ids before min_tokens).

    `choices` tokens are drawn, choice i with `seed` + i; with `top` > 0, the `top` likeliest are told instead.
    """

    sampling: Sampling
    seed: int
    position: int
    banned: tuple[int, ...] = ()
    choices: int = 1
    top: int = 0

    @property
    def plain_greedy(self) -> bool:
        """Whether the likeliest token of the raw logits is all that is asked for."""
        return self.sampling.greedy and not self.banned and not self.top

    @property
    def is_free(self) -> bool:
        """Whether every token may be drawn that is not banned."""
        return not self.top and not self.sampling.greedy and not self.sampling.restricts


@dataclasses.dataclass(frozen=True)
class Draw:
    """Token ids, one for each choice; or the likeliest ones, best first, with their log-probabilities."""

    tokens: list[int]
    logprobs: list[float] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True)
class FreeDraw:
    """A draw from all of a row of logits."""

    row: int
    seed: int
    position: int
    temperature: float


# Draws tokens from fp32 logits `[R, V]`: for each the argmax of logits / temperature + Gumbel noise.
FreeDraws = Callable[[Tensor, Sequence[FreeDraw]], list[int]]


def sample(logits: Tensor, rows: list[Row], draw_free: FreeDraws | None = None) -> list[Draw]:
    """Draw for each row of fp32 logits `[R, V]`, which may be changed. `draw_free`: a faster `draw_by_definition`."""
    for index, row in enumerate(rows):
        if row.banned:
            logits[index, list(row.banned)] = -torch.inf
    greedy = logits.argmax(dim=-1).tolist() if any(row.sampling.greedy for row in rows) else [0] * len(rows)
    free = {
        (index, choice): FreeDraw(index, _seed(row, choice), row.position, row.sampling.temperature)
        for index, row in enumerate(rows)
        if row.is_free
        for choice in range(row.choices)
    }
    drawn = dict(zip(free, (draw_free or draw_by_definition)(logits, list(free.values())), strict=True)) if free else {}
    return [
        Draw([drawn[index, choice] for choice in range(row.choices)])
        if row.is_free
        else _draw(logits[index], best, row)
        for index, (best, row) in enumerate(zip(greedy, rows, strict=True))
    ]


def draw_by_definition(logits: Tensor, draws: Sequence[FreeDraw]) -> list[int]:
    values = logits.cpu().numpy()
    ids = np.arange(values.shape[1])
    noise = (gumbel(draw.seed, draw.position, ids) for draw in draws)
    return [
        int((values[draw.row] / np.float32(draw.temperature) + each).argmax())
        for draw, each in zip(draws, noise, strict=True)
    ]


def _seed(row: Row, choice: int) -> int:
    return (row.seed + choice) % 2**64


def _draw(logits: Tensor, best: int, row: Row) -> Draw:
    if row.top:
        return _likeliest(logits.cpu().numpy(), row.top)
    if row.sampling.greedy:
        return Draw([best] * row.choices)
    values = logits.cpu().numpy()
    ids = candidates(values, row.sampling)
    scaled = values[ids] / np.float32(row.sampling.temperature)
    seeds = [_seed(row, choice) for choice in range(row.choices)]
    return Draw([int(ids[(scaled + gumbel(seed, row.position, ids)).argmax()]) for seed in seeds])


def _likeliest(logits: Logits, count: int) -> Draw:
    """Log-probabilities are of the whole vocabulary, in float64; ties go to the lowest id."""
    ids = _ranked(logits, count)
    wide = logits.astype(np.float64)
    total = wide.max() + np.log(np.exp(wide - wide.max()).sum())
    return Draw(ids.tolist(), (wide[ids] - total).tolist())


def candidates(logits: Logits, sampling: Sampling) -> Ids:
    """The ids that min_p, top_k and top_p leave, ascending; never none.

    top_k keeps the k likeliest, top_p the fewest likeliest whose probabilities (after the others) add up to at least p, min_p those
    of at least min_p times the likeliest's probability. Equal logits rank by id.
    """
    if not sampling.restricts:
        return np.flatnonzero(logits > -np.inf)
    ranked = _ranked(logits, min(_FIRST_LOOK, len(logits)))
    keep = _count(logits, ranked, sampling)
    if keep is None:
        ranked = _ranked(logits, len(logits))
        keep = _count(logits, ranked, sampling)
        assert keep is not None  # the whole vocabulary holds all probability
    return np.sort(ranked[:keep])


def _ranked(logits: Logits, count: int) -> Ids:
    """The `count` likeliest ids, likeliest first."""
    if count < len(logits):
        threshold = np.partition(logits, len(logits) - count)[len(logits) - count]
        pool = np.flatnonzero(logits >= threshold)
    else:
        pool = np.arange(len(logits))
    return pool[np.argsort(-logits[pool], kind="stable")][:count]


def _count(logits: Logits, ranked: Ids, sampling: Sampling) -> int | None:
    """How many of the ranked ids stay, or None if that cannot be told without ranking more."""
    whole = len(ranked) == len(logits)
    scaled = logits.astype(np.float64) / sampling.temperature
    weights = np.exp(scaled - scaled[ranked[0]])
    ranked_weights = weights[ranked]
    keep = len(ranked)
    limited = whole
    if sampling.min_p > 0.0:
        above = int((ranked_weights >= sampling.min_p).sum())
        limited, keep = limited or above < len(ranked), min(keep, max(1, above))
    if 0 < sampling.top_k <= keep:
        limited, keep = True, sampling.top_k
    # Without an end of the set among the ranked ids, only top_p alone can find one: its mass is the whole vocabulary's.
    if not limited and (sampling.top_p == 1.0 or sampling.top_k > 0 or sampling.min_p > 0.0):
        return None
    if sampling.top_p < 1.0:
        mass = ranked_weights[:keep].sum() if limited else weights.sum()
        cumulative = np.cumsum(ranked_weights[:keep])
        enough = int(np.searchsorted(cumulative, sampling.top_p * mass)) + 1
        if enough > keep and not limited:
            return None
        keep = min(keep, enough)
    return keep
