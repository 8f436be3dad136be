"""What was compiled, or met for the first time, after warm-up: counted, and each named once in the log.

On a GPU these are Triton's compilations. Plain torch on a CPU makes code and buffers for every number of rows that its products
meet. The CPU kernels are compiled before anything runs, so with them there is nothing to be late.
"""

import logging
from collections.abc import Callable

log = logging.getLogger("octavo.engine")

_MOST_NAMES = 1024  # more are counted, and not logged


class LateCompilations:
    def __init__(self) -> None:
        self.total = 0
        self._names: set[str] = set()

    def met(self, name: str) -> None:
        self.total += 1
        if name not in self._names and len(self._names) < _MOST_NAMES:
            self._names.add(name)
            log.warning("compiled or met first while serving, which warm-up should have done: %s", name)


class RowSizes:
    """Numbers of rows, as products are computed for them; one that warm-up did not meet is late, once."""

    def __init__(self, padded: Callable[[int], int], most: int) -> None:
        """`padded`: how many rows are computed for so many; `most`: rows of a step."""
        self._padded = padded
        self._warmed: set[int] = set()
        self.all = sorted({padded(rows) for rows in range(1, most + 1)})

    def warmed(self, rows: int) -> None:
        self._warmed.add(self._padded(rows))

    def look(self, rows: int, late: LateCompilations) -> None:
        size = self._padded(rows)
        if size not in self._warmed:
            self._warmed.add(size)
            late.met(f"products with {size} rows")
