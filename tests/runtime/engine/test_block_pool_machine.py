"""The pool against a model of it that is slow and plain: who refers to what, what was released when, what is named how."""

import itertools

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.prefix_index import chain_key, extend_chain

SIZE = 2
TOTAL = 8
ROOT = b"root"
Tokens = tuple[int, ...]


class Table:
    """Pages and the tokens that their slots are taken to hold."""

    def __init__(self, pages: list[int], tokens: Tokens) -> None:
        self.pages = pages
        self.tokens = tokens
        self.keys: list[bytes] = []
        extend_chain(self.keys, ROOT, tokens, SIZE)


class PoolMachine(RuleBasedStateMachine):
    """Random tables: taken, published, shared, released; prompts are looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.pool = BlockPool(TOTAL, SIZE)
        self.tables: list[Table] = []
        self.cached: list[int] = []  # longest unused first
        self.names: dict[int, tuple[Tokens, Tokens]] = {}  # page → (all tokens before it, those in it)

    @rule(count=st.integers(0, 4), tokens=st.lists(st.integers(0, 1), min_size=8, max_size=8))
    def take(self, count: int, tokens: list[int]) -> None:
        blank = TOTAL - len(self.cached) - len(self.held())
        pages = self.pool.take(count)
        if count > blank + len(self.cached):
            assert pages is None
            return
        assert pages is not None
        assert len(set(pages)) == count
        evicted = pages[blank:]
        assert evicted == self.cached[: len(evicted)]
        assert not set(pages) & self.held()
        del self.cached[: len(evicted)]
        for page in evicted:
            del self.names[page]
        self.tables.append(Table(pages, tuple(tokens[: count * SIZE])))

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def share(self, data: st.DataObject) -> None:
        table = data.draw(st.sampled_from(self.tables))
        self.pool.share(table.pages)
        self.tables.append(Table(list(table.pages), table.tokens))

    @rule(tokens=st.lists(st.integers(0, 1), max_size=8).map(tuple), most=st.integers(0, 8))
    def share_what_is_found(self, tokens: Tokens, most: int) -> None:
        match = self.pool.match(ROOT, Table([], tokens).keys, tokens, most)
        assert match.tokens == self.longest(tokens, most)
        assert len(match.pages) == -(-match.tokens // SIZE)
        for place, page in enumerate(match.pages):
            before, content = self.names[page]
            assert before == tokens[: place * SIZE]
            common = tokens[place * SIZE : min(match.tokens, (place + 1) * SIZE)]
            assert content[: len(common)] == common
        self.pool.share(match.pages)
        self.cached = [page for page in self.cached if page not in match.pages]
        self.tables.append(Table(match.pages, tokens[: match.tokens]))

    @precondition(lambda self: self.tables)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        table = self.tables.pop(data.draw(st.integers(0, len(self.tables) - 1)))
        self.pool.release(table.pages)
        still = self.held()
        self.cached += [page for page in reversed(table.pages) if page not in still and page in self.names]

    @precondition(lambda self: any(table.pages for table in self.tables))
    @rule(data=st.data(), filled=st.integers(1, SIZE))
    def publish(self, data: st.DataObject, filled: int) -> None:
        table = data.draw(st.sampled_from([table for table in self.tables if table.pages]))
        place = data.draw(st.integers(0, len(table.pages) - 1))
        page, before = table.pages[place], table.tokens[: place * SIZE]
        content = table.tokens[place * SIZE :][:filled]
        if not content:
            return
        parent = table.keys[place - 1] if place else ROOT
        self.pool.publish(page, chain_key(parent, content), parent, content)
        self.names.pop(page, None)
        if (before, content) not in self.names.values():
            self.names[page] = (before, content)

    @invariant()
    def books_balance(self) -> None:
        self.pool.audit(table.pages for table in self.tables)
        self.pool.check_balance()
        held = self.held()
        assert (self.pool.used, self.pool.cached) == (len(held), len(self.cached))
        assert self.pool.free == TOTAL - len(held)
        for page in range(1, TOTAL + 1):
            assert self.pool.filled(page) == len(self.names.get(page, ((), ()))[1])

    def held(self) -> set[int]:
        return {page for table in self.tables for page in table.pages}

    def longest(self, tokens: Tokens, most: int) -> int:
        """How many of the first tokens are in named pages, by the definition."""
        names = set(self.names.values())
        full = 0
        while (full + 1) * SIZE <= min(most, len(tokens)) and (
            (tokens[: full * SIZE], tokens[full * SIZE : (full + 1) * SIZE]) in names
        ):
            full += 1
        rest = tokens[full * SIZE : min((full + 1) * SIZE, most)]
        siblings = [content for before, content in names if before == tokens[: full * SIZE]]
        return full * SIZE + max((common_length(one, rest) for one in siblings), default=0)


def common_length(one: Tokens, other: Tokens) -> int:
    pairs = zip(one, other, strict=False)
    return len(list(itertools.takewhile(lambda pair: pair[0] == pair[1], pairs)))


PoolMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
TestPoolMachine = PoolMachine.TestCase
