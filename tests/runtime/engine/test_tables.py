"""Block tables: found pages begin them, forks share them, a shared page is copied before it is written, leaving names the tail."""

import pytest

from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.request import Request, Sequence
from octavo_runtime.engine.tables import Tables
from octavo_runtime.messages import AddRequest
from tests.runtime.engine.paper import GREEDY, IDENTITY

PAGE = 4


class Desk:
    """Tables over a small pool, and sequences of theirs."""

    def __init__(self, pages: int = 8, caching: bool = True) -> None:
        self.pool = BlockPool(pages, PAGE)
        self.tables = Tables(self.pool, IDENTITY if caching else None)
        self._step = 0

    def sequence(self, tokens: list[int], salt: bytes = b"") -> Sequence:
        asked = AddRequest("r", tokens, GREEDY, 0, tenant_salt=salt)
        return Sequence(Request(asked, 1, 0.0, self.tables.root(asked)), 0, list(tokens))

    def begun(self, tokens: list[int], salt: bytes = b"") -> Sequence:
        """It has entered with what was found for it."""
        sequence = self.sequence(tokens, salt)
        self.tables.enter(sequence, self.tables.match(sequence))
        return sequence

    def computed(self, tokens: list[int]) -> Sequence:
        """One whose tokens are all computed."""
        sequence = self.begun(tokens)
        self.compute(sequence)
        return sequence

    def compute(self, sequence: Sequence) -> None:
        assert self.tables.hold(sequence, len(sequence.tokens))
        self.run_step()
        count = sequence.uncomputed
        sequence.submit(count)
        self.tables.computed(sequence, count)
        sequence.drawing = 0

    def run_step(self) -> list[tuple[int, int]]:
        """A step from plan to collection: the copies that it makes."""
        self._step += 1
        copies = self.tables.planned(self._step)
        self.tables.collected(self._step)
        return copies

    def fork(self, parent: Sequence) -> Sequence:
        child = parent.fork(1)
        self.tables.fork(child, parent)
        return child


@pytest.mark.parametrize(
    ("before", "prompt", "found"),
    [
        pytest.param([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6, 7], 6, id="all of it, tail included"),
        pytest.param([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6], 5, id="all but the last token of an equal prompt"),
        pytest.param([1, 2, 3, 4], [1, 2, 3, 4], 3, id="of an equal full page as well"),
        pytest.param([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 9, 9], 5, id="a part of the tail"),
        pytest.param([1, 2, 3, 4, 5, 6], [1, 2, 9, 4, 5, 6, 7], 2, id="a part of a full page"),
        pytest.param([1, 2, 3, 4, 5, 6], [9, 2, 3, 4, 5, 6], 0, id="another beginning"),
        pytest.param([1], [1], 0, id="one token"),
    ],
)
def test_a_sequence_begins_with_what_an_earlier_one_left(before: list[int], prompt: list[int], found: int) -> None:
    desk = Desk()
    desk.tables.leave(desk.computed(before))
    assert desk.begun(prompt).computed == found


def test_running_sequences_share_full_pages_only() -> None:
    desk = Desk()
    desk.computed([1, 2, 3, 4, 5, 6])
    assert desk.begun([1, 2, 3, 4, 5, 6, 7]).computed == 4


def test_another_salt_finds_nothing() -> None:
    desk = Desk()
    desk.tables.leave(desk.computed([1, 2, 3, 4, 5]))
    assert desk.begun([1, 2, 3, 4, 5, 6], salt=b"other").computed == 0


def test_without_a_cache_nothing_is_found_or_kept() -> None:
    desk = Desk(caching=False)
    desk.tables.leave(desk.computed([1, 2, 3, 4, 5]))
    assert desk.begun([1, 2, 3, 4, 5, 6]).computed == 0
    assert (desk.pool.cached, desk.pool.free) == (0, 8)


def test_a_fork_shares_every_page_and_the_first_writer_copies() -> None:
    desk = Desk()
    parent = desk.computed([1, 2, 3, 4, 5, 6])
    child = desk.fork(parent)
    shared = list(parent.pages)
    assert child.pages == shared
    assert desk.pool.used == 2
    for one, token in ((child, 7), (parent, 8)):
        one.tokens.append(token)
        assert desk.tables.hold(one, 7)
    assert desk.run_step() == [(shared[1], child.pages[1])]
    assert parent.pages == shared
    assert child.pages[0] == shared[0]
    assert desk.pool.used == 3
    assert desk.tables.copies_total == 1


@pytest.mark.parametrize("caching", [True, False])
def test_of_several_forks_all_but_the_last_writer_copy(caching: bool) -> None:
    desk = Desk(caching=caching)
    parent = desk.computed([1, 2, 3, 4, 5, 6])
    family = [parent, *(desk.fork(parent) for _ in range(3))]
    for one in family:
        one.tokens.append(7)
        assert desk.tables.hold(one, 7)
    assert len(desk.run_step()) == 3
    assert len({one.pages[1] for one in family}) == 4
    assert {one.pages[0] for one in family} == {parent.pages[0]}


def test_a_fork_at_the_end_of_a_page_copies_nothing() -> None:
    desk = Desk()
    parent = desk.computed([1, 2, 3, 4])
    child = desk.fork(parent)
    for one in (child, parent):
        one.tokens.append(5)
        assert desk.tables.hold(one, 5)
    assert desk.run_step() == []
    assert child.pages[1] != parent.pages[1]


def test_a_named_tail_is_copied_where_a_sequence_turns_off_inside_it() -> None:
    desk = Desk()
    desk.tables.leave(desk.computed([1, 2, 3]))
    sequence = desk.begun([1, 2, 9])
    (source,) = sequence.pages
    assert desk.tables.hold(sequence, 3)
    assert desk.run_step() == [(source, sequence.pages[0])]
    assert desk.tables.match(desk.sequence([1, 2, 3, 4])).tokens == 3


def test_a_tail_that_goes_on_is_written_in_place() -> None:
    desk = Desk()
    desk.tables.leave(desk.computed([1, 2]))
    sequence = desk.begun([1, 2, 3])
    (page,) = sequence.pages
    assert desk.tables.hold(sequence, 3)
    assert desk.run_step() == []
    assert sequence.pages == [page]


def test_a_named_tail_is_given_up_when_no_page_is_free() -> None:
    desk = Desk(pages=1)
    desk.tables.leave(desk.computed([1, 2, 3]))
    sequence = desk.begun([1, 2, 9])
    assert desk.tables.room(sequence) == 2
    assert desk.tables.hold(sequence, 3)
    assert desk.run_step() == []
    assert desk.pool.filled(sequence.pages[0]) == 0


def test_what_others_read_is_never_given_up() -> None:
    desk = Desk(pages=1, caching=False)
    parent = desk.computed([1, 2])
    child = desk.fork(parent)
    child.tokens.append(3)
    assert desk.tables.room(child) == 0
    assert not desk.tables.hold(child, 3)
    assert child.pages == parent.pages
    assert desk.pool.references(parent.pages[0]) == 2


def test_nothing_is_taken_when_pages_lack() -> None:
    desk = Desk(pages=2)
    sequence = desk.computed([1, 2, 3])
    assert desk.tables.room(sequence) == 5
    assert not desk.tables.hold(sequence, 9)
    assert (len(sequence.pages), desk.pool.free) == (1, 1)
    assert desk.tables.hold(sequence, 8)


def test_leaving_gives_back_every_page_and_names_the_tail() -> None:
    desk = Desk()
    sequence = desk.computed([1, 2, 3, 4, 5, 6])
    desk.tables.leave(sequence)
    assert (desk.pool.used, desk.pool.cached) == (0, 2)
    assert (sequence.pages, sequence.computed, sequence.computed_once) == ([], 0, 6)


def test_a_page_that_was_to_be_copied_and_never_was_has_no_content() -> None:
    """The copy is made with the step; who is preempted before leaves a page that holds nothing."""
    desk = Desk()
    parent = desk.computed([1, 2, 3, 4, 5, 6])
    child = desk.fork(parent)
    child.tokens.append(7)
    assert desk.tables.hold(child, 7)
    desk.tables.leave(child)
    assert desk.run_step() == []
    assert desk.tables.match(desk.sequence([1, 2, 3, 4, 5, 6, 7])).tokens == 4


def test_leaving_early_does_not_shorten_what_can_be_found() -> None:
    desk = Desk()
    desk.tables.leave(desk.computed([1, 2, 3, 4]))
    desk.tables.leave(desk.begun([1, 2, 9]))  # it shared half of the page and left before it wrote anything
    assert desk.tables.match(desk.sequence([1, 2, 3, 4, 5])).tokens == 4


def test_counts_the_pages_that_leaving_would_free() -> None:
    desk = Desk()
    parent = desk.computed([1, 2, 3, 4, 5, 6])
    assert desk.tables.own_pages(parent) == 2
    child = desk.fork(parent)
    assert desk.tables.own_pages(parent) == 0
    child.tokens += [7, 8, 9]
    desk.compute(child)
    assert (desk.tables.own_pages(parent), desk.tables.own_pages(child)) == (1, 2)
