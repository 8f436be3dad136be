"""The pages of the KV cache: counted by reference, found by content, written by one sequence at a time.

A page is in one of three states: *blank* (nothing worth keeping), *referenced* (in the tables of so many sequences), or *cached*
(in no table, still findable by its content, the longest unused one reused first). Taking, sharing, releasing and finding cost the
same however many pages there are. `release` is the only way back. Page 0 is the sink that padding may touch and is never handed
out. After every step: blank + cached + referenced = total.
"""

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence

from octavo_runtime.engine.prefix_index import Content, PrefixIndex


class PoolError(AssertionError):
    """The books do not balance: a page was released twice, shared while blank, or written while shared. A fault of ours."""


@dataclasses.dataclass(frozen=True)
class Match:
    """Cached pages that a prompt begins with; they hold its first `tokens` tokens, the last page perhaps only in part."""

    pages: list[int]
    tokens: int


class BlockPool:
    """`total` pages with ids 1 … total; then `overflow` more, which only `spill` gives and which have no names.

    `demote` is told of cached pages (page, key), full ones, before they are reused.
    """

    def __init__(self, total: int, page_size: int, overflow: int = 0) -> None:
        self.total = total
        self.page_size = page_size
        self._blank = list(range(total, 0, -1))
        self._cached: collections.OrderedDict[int, None] = collections.OrderedDict()  # longest unused first
        self._overflow = list(range(total + overflow, total, -1))
        self._references = [0] * (total + overflow + 1)
        self._used = 0
        self._factors = [1] * (total + overflow + 1)  # of the tokens that a page was last written for
        self._reformed: set[int] = set()  # pages that are written in another form than before
        self._index = PrefixIndex()
        self.demote: Callable[[list[tuple[int, bytes]]], None] | None = None

    @property
    def free(self) -> int:
        """Pages that can be taken: blank and cached ones."""
        return len(self._blank) + len(self._cached)

    @property
    def free_below(self) -> int:
        """Pages of the overflow that can be taken."""
        return len(self._overflow)

    @property
    def cached(self) -> int:
        return len(self._cached)

    @property
    def used(self) -> int:
        """Pages that some sequence refers to."""
        return self._used

    def references(self, page: int) -> int:
        return self._references[page]

    def pages_for(self, tokens: int, factor: int = 1) -> int:
        """Pages that hold `tokens` slots, `factor` times `page_size` of them each."""
        return -(-tokens // (self.page_size * factor))

    def reform(self, pages: Iterable[int], factor: int) -> None:
        """These are about to be written by slots, in the form of pages with `factor` times the tokens."""
        changed = {page for page in pages if self._factors[page] != factor}
        self._reformed |= changed
        for page in changed:
            self._factors[page] = factor

    def overwrite(self, pages: Iterable[int], factor: int) -> None:
        """These are written as wholes, with what has that form; 0: it is not known yet."""
        for page in pages:
            self._factors[page] = factor
            self._reformed.discard(page)

    def take_reformed(self) -> list[int]:
        """Pages whose bytes must not be taken for numbers of their new form: to be zeroed before the next step writes slots."""
        reformed, self._reformed = sorted(self._reformed), set()
        return reformed

    def take(self, count: int) -> list[int] | None:
        """`count` pages with one reference each, or None (and nothing taken) if fewer are free. Blank ones go first."""
        if count > self.free:
            return None
        if self.demote is not None and (full := self.coldest(count - len(self._blank))):
            self.demote(full)
        pages = [self._blank.pop() if self._blank else self._evict() for _ in range(count)]
        for page in pages:
            self._references[page] = 1
        self._used += count
        return pages

    def spill(self, count: int) -> list[int]:
        """Up to `count` pages of the overflow, with one reference each; they return by `release`."""
        pages = [self._overflow.pop() for _ in range(min(count, len(self._overflow)))]
        for page in pages:
            self._references[page] = 1
        return pages

    def share(self, pages: Iterable[int]) -> None:
        """One more reference to each page, which must be referenced or cached."""
        for page in pages:
            if self._references[page] == 0:
                if page not in self._cached:
                    raise PoolError(f"page {page} is blank and cannot be shared")
                del self._cached[page]
                self._used += 1
            self._references[page] += 1

    def release(self, pages: Sequence[int]) -> None:
        """One reference less to each page of a table. Those without any are cached, where their content is named, or blank.

        The end of a table is reused before its beginning, which more prompts have in common.
        """
        for page in reversed(pages):
            if self._references[page] == 0:
                raise PoolError(f"page {page} was released more often than taken")
            self._references[page] -= 1
            if self._references[page] == 0 and page > self.total:
                self._overflow.append(page)
            elif self._references[page] == 0:
                self._used -= 1
                if page in self._index:
                    self._cached[page] = None
                else:
                    self._blank.append(page)

    def coldest(self, count: int) -> list[tuple[int, bytes]]:
        """Of the `count` pages that would be reused next, those that are full, with the keys of what they hold."""
        pages = itertools.islice(self._cached, max(0, count))
        return [
            (page, self._index.key(page))
            for page in pages
            if self._index.filled(page) == self.page_size * self._factors[page]
        ]

    def filled(self, page: int) -> int:
        """Slots whose content can be found; 0 for a page that is not named."""
        return self._index.filled(page)

    def writable(self, page: int, offset: int) -> bool:
        """Whether slots from `offset` on may be written: one sequence refers to the page, and no named content lies there."""
        return self._references[page] == 1 and self._index.filled(page) <= offset

    def publish(self, page: int, key: bytes, parent: bytes, tokens: Sequence[int]) -> None:
        """Let a referenced page be found by what its first slots hold."""
        assert self._references[page] > 0
        self._index.publish(page, key, Content(parent, tuple(tokens)))

    def unname(self, page: int) -> None:
        """Let a page not be found any more."""
        self._index.forget(page)

    def match(self, root: bytes, keys: Sequence[bytes], tokens: Sequence[int], most: int, factor: int = 1) -> Match:
        """The longest cached beginning of `tokens`, of at most `most`; its full pages, of `factor` times the pool's tokens, have
        the chain `keys`.

        Nothing is taken yet: see `share`.
        """
        size = self.page_size * factor
        pages: list[int] = []
        parent = root
        for key in keys[: most // size]:
            page = self._index.find(key, parent, tokens[len(pages) * size : (len(pages) + 1) * size])
            if page is None:
                break
            pages.append(page)
            parent = key
        found = len(pages) * size
        tail = self._index.longest(parent, tokens[found : min(found + size, most)])
        return Match(pages, found) if tail is None else Match([*pages, tail[0]], found + tail[1])

    def audit(self, tables: Iterable[Iterable[int]]) -> None:
        """Raise PoolError unless the tables hold exactly the counted references and every page is in its one place."""
        counted = [0] * len(self._references)
        for table in tables:
            for page in table:
                counted[page] += 1
        if counted != self._references:
            wrong = [page for page in range(len(counted)) if counted[page] != self._references[page]]
            raise PoolError(f"pages {wrong[:8]} are counted otherwise than the tables hold them")
        unreferenced = *self._blank, *self._cached, *self._overflow
        places = collections.Counter([*unreferenced, *(page for page, n in enumerate(counted) if n)])
        wrong = [page for page in range(len(counted)) if places[page] != (page > 0)]
        if wrong or self._used != self.total - self.free:
            raise PoolError(f"pages {wrong[:8]} are lost or twice there: {self.balance()}")
        unnamed = [page for page in self._cached if page not in self._index]
        if unnamed:
            raise PoolError(f"pages {unnamed[:8]} are cached without a content")

    def check_balance(self) -> None:
        """Raise PoolError unless blank + cached + referenced = total: the audit that costs nothing."""
        if len(self._blank) + len(self._cached) + self._used != self.total:
            raise PoolError(f"the pages do not add up: {self.balance()}")

    def balance(self) -> str:
        return f"{len(self._blank)} blank + {len(self._cached)} cached + {self._used} referenced pages, the pool has {self.total}"

    def _evict(self) -> int:
        page, _ = self._cached.popitem(last=False)
        self._index.forget(page)
        return page
