"""Drawing the next token of each row.

Temperature, then min_p, top_k and top_p over the scaled logits, then Gumbel-max with noise that depends on the request's seed, the
position and the token id alone: what a request draws does not depend on its company, and preemption does not change it. Ties go to
the lowest id on every path.
"""

import dataclasses
from collections.abc import Sequence
from typing import Protocol

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

    @property
    def is_limited(self) -> bool:
        """Whether it draws among the likeliest."""
        return not self.top and not self.sampling.greedy and self.sampling.restricts


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


@dataclasses.dataclass(frozen=True)
class Ranked:
    """The likeliest tokens of a row, likeliest first, of equal ones the lower id; `mass`: the sum over the whole vocabulary of
    exp((x − greatest) / temperature)."""

    ids: Ids
    mass: float


class Drawing(Protocol):
    """What draws are made of, over fp32 logits `[R, V]`."""

    def draw(self, logits: Tensor, draws: Sequence[FreeDraw]) -> list[int]:
        """For each the argmax of its row's logits / temperature + Gumbel noise."""
        ...

    def rank(self, logits: Tensor, rows: Sequence[tuple[int, float]], count: int) -> list[Ranked]:
        """The `count` likeliest tokens of each (row, temperature)."""
        ...


def sample(logits: Tensor, rows: list[Row], drawing: Drawing | None = None) -> list[Draw]:
    """Draw for each row of fp32 logits `[R, V]`, which may be changed. `drawing`: a faster `Definition`."""
    drawing = drawing or Definition()
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
    limited = {index: row.sampling.temperature for index, row in enumerate(rows) if row.is_limited}
    drawn = dict(zip(free, drawing.draw(logits, list(free.values())), strict=True)) if free else {}
    count = min(_FIRST_LOOK, logits.shape[1])
    ranked = dict(zip(limited, drawing.rank(logits, list(limited.items()), count), strict=True)) if limited else {}
    return [
        Draw([drawn[index, choice] for choice in range(row.choices)])
        if row.is_free
        else _draw(logits[index], best, row, ranked.get(index))
        for index, (best, row) in enumerate(zip(greedy, rows, strict=True))
    ]


class Definition:
    """A `Drawing` in numpy."""

    def draw(self, logits: Tensor, draws: Sequence[FreeDraw]) -> list[int]:
        return draw_by_definition(logits, draws)

    def rank(self, logits: Tensor, rows: Sequence[tuple[int, float]], count: int) -> list[Ranked]:
        values = logits.cpu().numpy()
        return [rank_by_definition(values[row], count, temperature) for row, temperature in rows]


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


def _draw(logits: Tensor, best: int, row: Row, ranked: Ranked | None) -> Draw:
    if row.top:
        return _likeliest(logits.cpu().numpy(), row.top)
    if row.sampling.greedy:
        return Draw([best] * row.choices)
    values = logits.cpu().numpy()
    ids = candidates(values, row.sampling, ranked)
    scaled = values[ids] / np.float32(row.sampling.temperature)
    seeds = [_seed(row, choice) for choice in range(row.choices)]
    return Draw([int(ids[(scaled + gumbel(seed, row.position, ids)).argmax()]) for seed in seeds])


def _likeliest(logits: Logits, count: int) -> Draw:
    """Log-probabilities are of the whole vocabulary, in float64; ties go to the lowest id."""
    ids = _ranked(logits, count)
    wide = logits.astype(np.float64)
    total = wide.max() + np.log(np.exp(wide - wide.max()).sum())
    return Draw(ids.tolist(), (wide[ids] - total).tolist())


def rank_by_definition(logits: Logits, count: int, temperature: float) -> Ranked:
    scaled = logits.astype(np.float64) / temperature
    return Ranked(_ranked(logits, count), float(np.exp(scaled - scaled.max()).sum()))


def candidates(logits: Logits, sampling: Sampling, first: Ranked | None = None) -> Ids:
    """The ids that min_p, top_k and top_p leave, ascending; never none. `first`: the likeliest, where they are known.

    top_k keeps the k likeliest, top_p the fewest likeliest whose probabilities (after the others) add up to at least p, min_p those
    of at least min_p times the likeliest's probability. Equal logits rank by id.
    """
    if not sampling.restricts:
        return np.flatnonzero(logits > -np.inf)
    ranked = first or rank_by_definition(logits, min(_FIRST_LOOK, len(logits)), sampling.temperature)
    keep = _count(logits, ranked, sampling)
    if keep is None:
        ranked = Ranked(_ranked(logits, len(logits)), ranked.mass)
        keep = _count(logits, ranked, sampling)
        assert keep is not None  # the whole vocabulary holds all probability
    return np.sort(ranked.ids[:keep])


def _ranked(logits: Logits, count: int) -> Ids:
    """The `count` likeliest ids, likeliest first."""
    if count < len(logits):
        threshold = np.partition(logits, len(logits) - count)[len(logits) - count]
        pool = np.flatnonzero(logits >= threshold)
    else:
        pool = np.arange(len(logits))
    return pool[np.argsort(-logits[pool], kind="stable")][:count]


def _count(logits: Logits, ranked: Ranked, sampling: Sampling) -> int | None:
    """How many of the ranked ids stay, or None if that cannot be told without ranking more."""
    whole = len(ranked.ids) == len(logits)
    scaled = logits[ranked.ids].astype(np.float64) / sampling.temperature
    weights = np.exp(scaled - scaled[0])
    keep = len(weights)
    limited = whole
    if sampling.min_p > 0.0:
        above = int((weights >= sampling.min_p).sum())
        limited, keep = limited or above < len(weights), min(keep, max(1, above))
    if 0 < sampling.top_k <= keep:
        limited, keep = True, sampling.top_k
    # Without an end of the set among the ranked ids, only top_p alone can find one: its mass is the whole vocabulary's.
    if not limited and (sampling.top_p == 1.0 or sampling.top_k > 0 or sampling.min_p > 0.0):
        return None
    if sampling.top_p < 1.0:
        mass = weights[:keep].sum() if limited else ranked.mass
        cumulative = np.cumsum(weights[:keep])
        enough = int(np.searchsorted(cumulative, sampling.top_p * mass)) + 1
        if enough > keep and not limited:
            return None
        keep = min(keep, enough)
    return keep
