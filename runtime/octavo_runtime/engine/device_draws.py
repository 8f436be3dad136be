"""Which rows of a step's output to draw from, and how: what `model/sampler.py` has as rows, here as arrays for a device."""

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from octavo_runtime.engine.plan import NewSlot

Ints = npt.NDArray[np.int64]
PARAMETERS = np.dtype([("temperature", "f8"), ("top_p", "f8"), ("min_p", "f8"), ("top_k", "i4")])  # of a slot


@dataclasses.dataclass(frozen=True)
class Told:
    """What a slot is told of: `count` draws from draw `first` on, or the `top` likeliest of offer `first`."""

    slot: int
    first: int
    count: int
    top: int = 0


@dataclasses.dataclass(frozen=True, eq=False)
class Draws:
    """R tokens to draw, then O rows whose likeliest tokens are told."""

    rows: Ints  # [R + O], among the step's tokens
    slots: Ints  # [R], whose newest token each draw becomes; the sink's for further choices of a first token
    seeds: npt.NDArray[np.uint64]  # [R]
    parameters: npt.NDArray[Any]  # [R], of PARAMETERS
    positions: Ints  # [R], tokens before the drawn one
    banned: Ints  # [2, n]: row among the R + O, token id that may not be drawn there
    told: list[Told]  # in the plan's order

    @property
    def top(self) -> int:
        """The most likeliest tokens that a row is asked for, 0 without such rows."""
        return max((told.top for told in self.told), default=0)


class DrawList:
    def __init__(self, sink: int) -> None:
        self._sink = sink
        self._rows: list[int] = []
        self._owners: list[int] = []
        self._slots: list[int] = []
        self._choices: list[int] = []
        self._positions: list[int] = []
        self._offered: list[int] = []
        self._banned: list[tuple[bool, int, list[int]]] = []  # whether of an offer, which, ids
        self._told: list[Told] = []

    def add(self, entry: NewSlot, row: int, length: int) -> None:
        """A draw after `length` tokens from row `row`. The first one of a slot is its prompt's: choices are drawn there."""
        first = len(self._offered) if entry.top else len(self._rows)
        choices = entry.choices if length == len(entry.tokens) else 1
        self._told.append(Told(entry.slot, first, 0 if entry.top else choices, entry.top))
        if entry.top:
            self._offered.append(row)
        else:
            self._rows += [row] * choices
            self._owners += [entry.slot] * choices
            self._slots += [entry.slot] + [self._sink] * (choices - 1)
            self._choices += range(choices)
            self._positions += [length] * choices
        if entry.banned and length < entry.min_length:
            for index in range(first, first + (1 if entry.top else choices)):
                self._banned.append((entry.top > 0, index, entry.banned))

    def finish(self, parameters: npt.NDArray[Any], seeds: npt.NDArray[np.uint64]) -> Draws:
        """With the parameters and seeds of all slots."""
        drawn = len(self._rows)
        pairs = [(index + drawn if offered else index, token) for offered, index, ids in self._banned for token in ids]
        owners = np.array(self._owners, dtype=np.int64)
        return Draws(
            rows=np.array(self._rows + self._offered, dtype=np.int64),
            slots=np.array(self._slots, dtype=np.int64),
            seeds=seeds[owners] + np.array(self._choices, dtype=np.uint64),  # modulo 2**64
            parameters=parameters[owners],
            positions=np.array(self._positions, dtype=np.int64),
            banned=np.array(pairs, dtype=np.int64).reshape(-1, 2).T,
            told=self._told,
        )
