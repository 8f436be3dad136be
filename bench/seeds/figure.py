"""What the benchmark tells: one row for each figure, with what was claimed, what is aimed at and what came out."""

import dataclasses
import operator
import statistics
from collections.abc import Callable, Sequence
from pathlib import Path

_COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "≤": operator.le,
    "<": operator.lt,
    "≥": operator.ge,
    ">": operator.gt,
}
_HEADINGS = ("figure", "seed", "target", "measured", "met", "with what")


@dataclasses.dataclass(frozen=True)
class Target:
    """`comparison` is one of ≤ < ≥ >; `unit` is written after the limit."""

    comparison: str
    limit: float
    unit: str = ""

    def met_by(self, value: float) -> bool:
        return _COMPARISONS[self.comparison](value, self.limit)

    def __str__(self) -> str:
        return f"{self.comparison} {self.limit:g}{self.unit}"


@dataclasses.dataclass(frozen=True)
class Figure:
    """`value` is what the target is compared with, in the target's unit; `measured` is what a reader sees."""

    name: str
    seed: str  # what the articles claim, "–" if nothing
    target: Target | None
    value: float
    measured: str
    note: str

    @property
    def met(self) -> str:
        if self.target is None:
            return "–"
        return "yes" if self.target.met_by(self.value) else "no"


@dataclasses.dataclass(frozen=True)
class Settings:
    """What all sections share. `folder` is a scratch folder for seeded models, `scale` a factor on the counts of requests."""

    folder: Path
    model: Path | None = None  # for the figures that depend on speed; None: a seeded one
    pairs: int = 3
    scale: float = 1.0

    def count(self, full: int) -> int:
        return max(4, round(full * self.scale))


def ratio_text(ratios: Sequence[float]) -> str:
    """The median of rounds, with the least and the greatest."""
    return f"{statistics.median(ratios):.1f} × ({min(ratios):.1f}–{max(ratios):.1f})"


def table(figures: Sequence[Figure]) -> str:
    """A Markdown table, aligned for a terminal."""
    rows = [_HEADINGS, *((f.name, f.seed, str(f.target or "–"), f.measured, f.met, f.note) for f in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])


def progress(text: str) -> None:
    print(text, flush=True)
