"""The pages of the KV cache, counted by reference.

Free pages are a stack; every page in use has a count of the sequences that hold it. `release` is the only way back. Page 0 is the
sink that padding may touch and is never handed out. After every step: free + referenced = total.
"""

from collections.abc import Iterable


class PoolError(AssertionError):
    """The books do not balance: a page was released twice or never taken. A fault of ours, never of a request."""


class BlockPool:
    """`total` pages with ids 1 … total."""

    def __init__(self, total: int, page_size: int) -> None:
        self.total = total
        self.page_size = page_size
        self._free = list(range(total, 0, -1))
        self._references = [0] * (total + 1)

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def used(self) -> int:
        return self.total - len(self._free)

    def pages_for(self, tokens: int) -> int:
        """Pages that hold `tokens` slots."""
        return -(-tokens // self.page_size)

    def take(self, count: int) -> list[int] | None:
        """`count` pages with one reference each, or None (and nothing taken) if fewer are free."""
        if count > len(self._free):
            return None
        pages = [self._free.pop() for _ in range(count)]
        for page in pages:
            self._references[page] = 1
        return pages

    def share(self, pages: Iterable[int]) -> None:
        """One more reference to each page, which must be in use."""
        for page in pages:
            if self._references[page] == 0:
                raise PoolError(f"page {page} is free and cannot be shared")
            self._references[page] += 1

    def release(self, pages: Iterable[int]) -> None:
        """One reference less to each page; those without any are free again."""
        for page in pages:
            if self._references[page] == 0:
                raise PoolError(f"page {page} was released more often than taken")
            self._references[page] -= 1
            if self._references[page] == 0:
                self._free.append(page)

    def audit(self, tables: Iterable[Iterable[int]]) -> None:
        """Raise PoolError unless free + referenced = total and the tables hold exactly the counted references."""
        counted = [0] * (self.total + 1)
        for table in tables:
            for page in table:
                counted[page] += 1
        if counted != self._references:
            wrong = [page for page in range(self.total + 1) if counted[page] != self._references[page]]
            raise PoolError(f"pages {wrong[:8]} are counted otherwise than the tables hold them")
        if self.free + sum(1 for count in counted if count) != self.total or counted[0]:
            raise PoolError(f"{self.free} free pages and {self.used} used ones are not the pool's {self.total}")
