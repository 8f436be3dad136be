"""The block tables of sequences: pages taken as tokens come, shared with whoever begins alike, copied before a shared one is
written.

All that a sequence does with pages is here, and `leave` is its one way to give them back. No page returns to the pool while a step
in flight reads or writes it (`fence.py`): what a sequence that left has given back is held, and so is what a copy was made from.

A sequence with a budget gives pages up from the middle of its table (`selective.py`); what it computes after that depends on
what it kept, so none of its later pages can be found by others.
"""

import bisect
from collections.abc import Iterator

from octavo_runtime.engine.block_pool import BlockPool, Match
from octavo_runtime.engine.fence import Fence
from octavo_runtime.engine.prefix_index import CacheIdentity, chain_key, extend_chain, narrowed, root_key
from octavo_runtime.engine.request import Sequence
from octavo_runtime.engine.selective import places_to_evict
from octavo_runtime.messages import AddRequest


class Tables:
    """`identity` None: no prefix cache; forks share pages all the same.

    `ahead`: whether steps are planned while others are in flight. Then a copy keeps a reference to its source until its step is
    collected; otherwise the source returns at once, as a step's copies are made before anything is written.
    """

    def __init__(self, pool: BlockPool, identity: CacheIdentity | None, ahead: bool = False) -> None:
        self._pool = pool
        self._identity = identity
        self._ahead = ahead
        self._copies: dict[Sequence, tuple[int, int]] = {}  # (source, target), for the next step
        self._copied: dict[Sequence, int] = {}  # the step in flight that copies the page which it writes
        self._fence: Fence[list[int]] = Fence(pool.release)
        self.copies_total = 0
        self.evicted_tokens_total = 0

    def root(self, request: AddRequest, narrow: bool = False) -> bytes:
        if self._identity is None:
            return b""
        identity = narrowed(self._identity) if narrow else self._identity
        return root_key(identity, request.adapter, request.tenant_salt)

    def match(self, sequence: Sequence) -> Match:
        """The cached pages that its tokens begin with. The last token is always left to compute: its logits are needed."""
        if self._identity is None:
            return Match([], 0)
        extend_chain(sequence.keys, sequence.request.root, sequence.tokens, self._size(sequence))
        most, budget = len(sequence.tokens) - 1, sequence.request.kv_budget
        if budget is not None:
            most = min(most, budget.match_tokens)
        return self._pool.match(sequence.request.root, sequence.keys, sequence.tokens, most, sequence.page_factor)

    def enter(self, sequence: Sequence, match: Match) -> None:
        """Begin its table with what was found."""
        self._pool.share(match.pages)
        sequence.pages, sequence.computed, sequence.submitted = list(match.pages), match.tokens, match.tokens
        sequence.computed_once = max(sequence.computed_once, match.tokens)

    def fork(self, child: Sequence, parent: Sequence) -> None:
        """Share the parent's table, its partial tail included: whoever writes there first copies it. Nothing may be in flight for
        the parent."""
        self._pool.share(parent.pages)
        child.pages, child.computed, child.submitted = list(parent.pages), parent.computed, parent.computed
        child.evicted, child.weights = parent.evicted, dict(parent.weights)

    def hold(self, sequence: Sequence, end: int) -> bool:
        """Make its table ready to be written from what is submitted up to `end` tokens; False, and nothing taken, if pages lack."""
        pool, table = self._pool, sequence.pages
        at = sequence.slots // self._size(sequence)
        copied = self._must_copy(sequence)
        pages = pool.take(max(0, pool.pages_for(end - sequence.evicted, sequence.page_factor) - len(table)) + copied)
        if pages is None:
            return False
        if copied:
            target = pages.pop()
            pool.overwrite([target], sequence.page_factor)
            self._copies[sequence] = (table[at], target)
            if not self._ahead:
                pool.release([table[at]])
            table[at] = target
            sequence.told_pages = min(sequence.told_pages, at)
        pool.reform(pages, sequence.page_factor)
        table += pages
        return True

    def fit(self, sequence: Sequence, count: int) -> int:
        """How many of its next `count` tokens a step can compute within its budget, pages having gone where they had to; 0: not
        before what is in flight tells which of them matter."""
        budget = sequence.request.kv_budget
        if budget is None:
            return count
        room = budget.tokens - sequence.slots
        count = min(count, max(room, budget.step_tokens))
        if count > room:
            if sequence.submitted > sequence.computed and any(
                one not in sequence.weights for one in sequence.pages[:-1]
            ):
                return 0
            excess = self._pool.pages_for(sequence.slots + count, sequence.page_factor) - budget.pages
            weights = [sequence.weights.get(page, 0.0) for page in sequence.pages]
            self._evict(sequence, places_to_evict(weights, budget.recent_pages, excess))
        return count

    def room(self, sequence: Sequence) -> int:
        """Tokens that `hold` could find slots for now."""
        copied = self._must_copy(sequence)
        if copied and not self._pool.free:
            return 0
        return (len(sequence.pages) + self._pool.free - copied) * self._size(sequence) - sequence.slots

    def computed(self, sequence: Sequence, count: int) -> None:
        """`count` more tokens have keys and values: let the pages that they fill be found, while it has its whole history."""
        size = self._size(sequence)
        first = sequence.computed // size
        sequence.computed += count
        if self._identity is None or sequence.evicted or sequence.computed // size == first:
            return
        extend_chain(sequence.keys, sequence.request.root, sequence.tokens, size)
        for page in range(first, sequence.computed // size):
            tokens = sequence.tokens[page * size : (page + 1) * size]
            self._pool.publish(sequence.pages[page], sequence.keys[page], self._parent(sequence, page), tokens)

    def leave(self, sequence: Sequence) -> None:
        """Give all pages back. The tail stays findable too, if nobody else goes on from it.

        What steps in flight compute and draw for it is nobody's from then on.
        """
        full, offset = divmod(sequence.computed, self._size(sequence))
        if (
            self._identity
            and offset
            and not sequence.evicted
            and self._holds_more_than_is_named(sequence, full, offset)
        ):
            tail, parent = sequence.tokens[sequence.computed - offset : sequence.computed], self._parent(sequence, full)
            self._pool.publish(sequence.pages[full], chain_key(parent, tail), parent, tail)
        self._fence.give(sequence.pages)
        copy = self._copies.pop(sequence, None)
        if copy is not None and self._ahead:
            self._fence.give([copy[0]])
        sequence.computed_once = max(sequence.computed_once, sequence.computed)
        sequence.pages, sequence.computed, sequence.submitted, sequence.drawing = [], 0, 0, 0
        sequence.evicted_before = max(sequence.evicted_before, sequence.evicted)
        sequence.evicted, sequence.weights = 0, {}

    def spill(self, sequence: Sequence, count: int) -> list[tuple[int, int]]:
        """Let up to `count` of its earliest pages that are not written any more lie in the overflow: the copies (source, target) to
        make; its references to the sources are to be released then."""
        table, pool = sequence.pages, self._pool
        behind = range(min(len(table), sequence.computed // self._size(sequence)))
        places = [place for place in behind if table[place] <= pool.total][:count]
        targets = pool.spill(len(places))
        pool.overwrite(targets, sequence.page_factor)
        moves = [(table[place], target) for place, target in zip(places, targets, strict=False)]
        for place, target in zip(places, targets, strict=False):
            table[place] = target
            sequence.told_pages = min(sequence.told_pages, place)
        return moves

    def made(self, sequence: Sequence) -> bool:
        """Whether its pages hold what it has computed: none is a copy that is not known to be made."""
        return sequence not in self._copies and sequence not in self._copied

    def tail(self, sequence: Sequence) -> tuple[int, bytes] | None:
        """The page that its computed tokens fill in part, and the key of what it holds; None without one, or after evictions."""
        full, offset = divmod(sequence.computed, self._size(sequence))
        if not (offset and self._identity) or sequence.evicted:
            return None
        tokens = sequence.tokens[sequence.computed - offset : sequence.computed]
        return sequence.pages[full], chain_key(self._parent(sequence, full), tokens)

    def own_pages(self, sequence: Sequence) -> int:
        """Pages at the end of its table that nobody else refers to: what leaving would free.

        Found by bisection, as sharing is nearly always of a common beginning; an exception makes it an estimate.
        """
        table, references = sequence.pages, self._pool.references
        first_own = bisect.bisect_left(range(len(table)), True, key=lambda at: references(table[at]) == 1)
        return len(table) - first_own

    def lost_tokens(self, sequence: Sequence) -> int:
        """Computed tokens in pages that nobody else refers to: what leaving would lose, but for what stays in the prefix cache."""
        kept = (len(sequence.pages) - self.own_pages(sequence)) * self._size(sequence)
        return max(0, sequence.computed - kept)

    def shares_its_end(self, sequence: Sequence) -> bool:
        """Whether others refer to the page that it writes next, so that a copy is due."""
        at = sequence.slots // self._size(sequence)
        return at < len(sequence.pages) and self._pool.references(sequence.pages[at]) > 1

    def planned(self, step: int) -> list[tuple[int, int]]:
        """A step is in flight from now on: the copies (source, target) that it begins with."""
        self._fence.planned(step)
        if not self._copies:
            return []
        copies = list(self._copies.values())
        self.copies_total += len(copies)
        self._copied |= dict.fromkeys(self._copies, step)
        self._copies = {}
        if self._ahead:
            self._fence.give([source for source, _ in copies])
        return copies

    def copied_in(self, step: int) -> list[Sequence]:
        """Those whose table has a page that this step was to copy."""
        return [sequence for sequence, copied in self._copied.items() if copied == step]

    def collected(self, step: int) -> None:
        self._fence.collected(step)
        if self._copied:
            self._copied = {sequence: copied for sequence, copied in self._copied.items() if copied > step}

    def held(self) -> Iterator[list[int]]:
        """Pages that no table has, for what is in flight and for copies that the next step makes."""
        yield from self._fence
        if self._ahead:
            yield [source for source, _ in self._copies.values()]

    def _evict(self, sequence: Sequence, places: list[int]) -> None:
        """Give up the pages at these places of its table, which are computed."""
        table = sequence.pages
        self._fence.give([table[place] for place in places])
        gone = set(places)
        sequence.pages = [page for place, page in enumerate(table) if place not in gone]
        sequence.evicted += len(places) * self._size(sequence)
        sequence.told_pages = min(sequence.told_pages, places[0])
        self.evicted_tokens_total += len(places) * self._size(sequence)

    def _size(self, sequence: Sequence) -> int:
        """Tokens of its pages."""
        return self._pool.page_size * sequence.page_factor

    def _must_copy(self, sequence: Sequence) -> bool:
        """Whether the page that it writes next is to be copied before: others refer to it, or its content can be found.

        In a pool without a free page, content that nobody else refers to is given up instead.
        """
        pool = self._pool
        at, offset = divmod(sequence.slots, self._size(sequence))
        if at == len(sequence.pages) or pool.writable(sequence.pages[at], offset):
            return False
        page = sequence.pages[at]
        if pool.free or pool.references(page) > 1:
            return True
        pool.unname(page)
        return False

    def _holds_more_than_is_named(self, sequence: Sequence, place: int, offset: int) -> bool:
        """Whether its page holds what can be found under no name yet, and under its name alone. A copy that is not known to be
        made holds nothing."""
        page = sequence.pages[place]
        return self.made(sequence) and self._pool.references(page) == 1 and self._pool.filled(page) < offset

    def _parent(self, sequence: Sequence, page: int) -> bytes:
        return sequence.keys[page - 1] if page else sequence.request.root
