"""A runner on paper: it does what plans say to pages that hold, in each slot, all the tokens that lead to it.

So it can check that a sequence reads exactly its own history whatever was shared, copied, evicted and reused, that nothing
shared is written, and that nobody else is given what a step in flight reads or writes. Its "model" draws a token that depends
on the history and the seed alone, so answers can be compared with those given alone.

Of a history that lost pages it checks that what is left is the sequence's own, in order, as much as its table has slots for. The
attention that it tells a page of is `attention_to`."""

import collections
import dataclasses
import hashlib
from collections.abc import Callable

from octavo_runtime.engine.plan import Drawn, NewSlot, Run, StepPlan, StepResult

VOCABULARY = 10


def drawn_token(tokens: list[int], seed: int) -> int:
    """What the model draws after `tokens`."""
    return _number(tokens, seed) % VOCABULARY


def logprobs(tokens: list[int]) -> list[tuple[float, int]]:
    """(log-probability, token) of the whole vocabulary, likeliest first."""
    weights = [1 + _number([*tokens, token], 1) % 1000 for token in range(VOCABULARY)]
    total = sum(weights)
    return sorted(
        ((-((total / weight) ** 0.5), token) for token, weight in enumerate(weights)), key=lambda one: -one[0]
    )


def _number(tokens: list[int], seed: int) -> int:
    return int.from_bytes(hashlib.blake2b(bytes(tokens), digest_size=8, key=seed.to_bytes(8, "big")).digest(), "big")


@dataclasses.dataclass(eq=False)
class _Slot:
    entry: NewSlot
    tokens: list[int]
    pages: list[int]
    evicted: int


Users = dict[int, set[_Slot | None]]  # of each page, who reads or writes it; None: a copy is made from it


def attention_to(page: int) -> float:
    """What one query gives to it: anything that tells pages apart."""
    return (page * 7 % 11) / 11


class PaperRunner:
    """Keeps back what it draws until the step is collected."""

    def __init__(self, page_size: int, draw: Callable[[list[int], int], int]) -> None:
        self._page_size = page_size
        self._draw = draw
        self._slots: dict[int, _Slot] = {}
        self._held: dict[tuple[int, int], tuple[int, ...]] = {}  # (page, offset) → the tokens up to the one in it
        self._flying: collections.deque[tuple[StepResult, Users]] = collections.deque()

    def submit(self, plan: StepPlan) -> None:
        self._check_slots(plan)
        for slot in plan.dropped:
            del self._slots[slot]
        for entry in plan.new:
            self._slots[entry.slot] = _Slot(entry, list(entry.tokens), list(entry.pages), entry.evicted)
        for slot, tokens in plan.evicted:
            self._slots[slot].evicted = tokens
            del self._slots[slot].pages[self._told_from(plan, slot) :]
        for slot, place, pages in plan.grown:
            table = self._slots[slot].pages
            assert place <= len(table), "pages were told with a gap"
            table[place : place + len(pages)] = pages
        self._check_that_nobody_else_uses_what_is_written(plan)
        users = self._users(plan)
        self._copy(plan.copies)
        written: set[tuple[int, int]] = set()
        for run in plan.run:
            self._compute(run.slot, run.start, run.count, written)
        masses = [(run.slot, self._masses(run)) for run in plan.run if self._slots[run.slot].entry.weigh]
        drawn = [self._drawn(run.slot) for run in plan.run if self._at_end(run.slot, run.start + run.count)]
        self._flying.append((StepResult(plan.step, drawn, masses), users))

    def collect(self, step: int) -> StepResult:
        result, _ = self._flying.popleft()
        assert result.step == step
        return result

    @property
    def pages_in_use(self) -> set[int]:
        """By steps that are submitted and not collected."""
        return {page for _, users in self._flying for page in users}

    def read(self, page: int) -> list[tuple[int, ...] | None]:
        """What its slots hold."""
        return [self._held.get((page, offset)) for offset in range(self._page_size)]

    def write(self, page: int, contents: list[tuple[int, ...] | None]) -> None:
        """A transfer writes the page, from its first slot on: nobody may use it in a step in flight."""
        assert page not in self.pages_in_use, f"page {page} is written by a transfer while a step in flight uses it"
        for offset, content in enumerate(contents):
            self._held.pop((page, offset), None)
            if content is not None:
                self._held[page, offset] = content

    def _users(self, plan: StepPlan) -> Users:
        users: Users = collections.defaultdict(set)
        for run in plan.run:
            slot = self._slots[run.slot]
            for page in slot.pages[: self._pages_for(run.start + run.count - slot.evicted)]:
                users[page].add(slot)
        for source, target in plan.copies:
            users[source].add(None)
            users[target] |= {slot for slot in self._slots.values() if target in slot.pages}
        return users

    def _check_slots(self, plan: StepPlan) -> None:
        given = {*plan.dropped, *(entry.slot for entry in plan.new)}
        drawing = {drawn.slot for result, _ in self._flying for drawn in result.drawn}
        assert not given & drawing, f"slots {given & drawing} are given away while a step in flight draws for them"

    def _check_that_nobody_else_uses_what_is_written(self, plan: StepPlan) -> None:
        """In the steps in flight, that is."""
        for _, users in self._flying:
            for _, target in plan.copies:
                assert target not in users, f"page {target} is copied over while a step in flight uses it"
            for run in plan.run:
                slot = self._slots[run.slot]
                start = run.start - slot.evicted
                first, end = start // self._page_size, self._pages_for(start + run.count)
                for page in slot.pages[first:end]:
                    strangers = users.get(page, set()) - {slot}
                    assert not strangers, f"page {page} is written while a step in flight uses it for another"

    def _copy(self, copies: list[tuple[int, int]]) -> None:
        assert len({target for _, target in copies}) == len(copies), "two copies go to one page"
        read = [[self._held.get((source, offset)) for offset in range(self._page_size)] for source, _ in copies]
        for (_, target), contents in zip(copies, read, strict=True):
            for offset, content in enumerate(contents):
                self._held.pop((target, offset), None)
                if content is not None:
                    self._held[target, offset] = content

    def _compute(self, slot: int, start: int, count: int, written: set[tuple[int, int]]) -> None:
        tokens, pages, evicted = self._slots[slot].tokens, self._slots[slot].pages, self._slots[slot].evicted
        places = [(pages[at // self._page_size], at % self._page_size) for at in range(start + count - evicted)]
        assert start + count <= len(tokens)
        for at in range(start, start + count):
            assert places[at - evicted] not in written, "a slot is written twice in a step"
            written.add(places[at - evicted])
            self._held[places[at - evicted]] = tuple(tokens[: at + 1])
        histories = [self._held.get(place, ()) for place in places]
        for at, history in enumerate(histories):
            assert history, f"slot {slot} reads what nobody wrote at {at}"
            assert history == tuple(tokens[: len(history)]), f"slot {slot} reads another history at {at}"
        ends = [len(history) for history in histories]
        assert ends == sorted(set(ends)), f"slot {slot} reads its history in another order"
        assert ends[-1] == start + count

    def _pages_for(self, tokens: int) -> int:
        return -(-tokens // self._page_size)

    def _told_from(self, plan: StepPlan, slot: int) -> int:
        return next(place for number, place, _ in plan.grown if number == slot)

    def _masses(self, run: Run) -> list[float]:
        slot = self._slots[run.slot]
        pages = slot.pages[: self._pages_for(run.start + run.count - slot.evicted)]
        return [run.count * attention_to(page) for page in pages]

    def _at_end(self, slot: int, end: int) -> bool:
        return end == len(self._slots[slot].tokens)

    def _drawn(self, slot: int) -> Drawn:
        entry, tokens = self._slots[slot].entry, self._slots[slot].tokens
        if entry.top:
            best = logprobs(tokens)[: entry.top]
            return Drawn(slot, [token for _, token in best], [logprob for logprob, _ in best])
        choices = entry.choices if len(tokens) == len(entry.tokens) else 1
        drawn = [self._draw(tokens, (entry.seed + choice) % 2**64) for choice in range(choices)]
        tokens.append(drawn[0])
        return Drawn(slot, drawn)
