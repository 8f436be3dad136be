"""Pages that several sequences share, and the copies they write to instead, in the real pool."""

import msgspec
import pytest
import torch
from torch import Tensor

from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.request import Sequence
from octavo_runtime.engine.runner import ModelRunner
from octavo_runtime.messages import AddRequest
from tests.runtime.engine.tiny_engine import PAGE, SEEDED, Alone, Answers, MakeEngine, ask, finish, prompt, step

N = 4
INSIDE = 2 * PAGE + 5  # a prompt that ends inside its third page
FORKED = ask("forked", prompt("forked", INSIDE), SEEDED, 24, n=N, seed=7)


def running(engine: Engine, name: str) -> list[Sequence]:
    """A request's sequences in the batch, by index."""
    found = [one for one in engine.scheduler._life.batch if one.request.asked.id == name]
    return sorted(found, key=lambda one: one.index)


def held(engine: Engine, sequence: Sequence) -> Tensor:
    """Keys and values of what a sequence has computed: `[layers, 2, tokens, KV heads, D]`."""
    runner = engine._pipeline._runner
    assert isinstance(runner, ModelRunner)
    layers = torch.stack(runner._pool.layers)[:, sequence.pages]
    pages = layers.view(torch.float32).view(len(layers), len(sequence.pages), 2, PAGE, 2, 16)
    return pages.transpose(1, 2).flatten(2, 3)[:, :, : sequence.computed].clone()


def steps(engine: Engine, count: int) -> Answers:
    answers = Answers()
    for _ in range(count):
        assert step(engine, answers)
    return answers


def test_siblings_differ_only_where_their_tokens_do(new_engine: MakeEngine) -> None:
    engine = new_engine()
    engine.add(FORKED)
    steps(engine, 9)
    siblings = running(engine, FORKED.id)
    tables, kept = [one.pages for one in siblings], [held(engine, one) for one in siblings]
    assert len(siblings) == N
    assert all(table[:2] == tables[0][:2] for table in tables)
    own = [page for table in tables for page in table[2:]]
    assert len(set(own)) == len(own) == N
    for one, content in zip(siblings[1:], kept[1:], strict=True):
        first = siblings[0]
        assert torch.equal(content[:, :, :INSIDE], kept[0][:, :, :INSIDE])
        differ = next(at for at in range(INSIDE, first.computed) if one.tokens[at] != first.tokens[at])
        assert torch.allclose(content[:, :, :differ], kept[0][:, :, :differ], atol=1e-5)
        assert not torch.allclose(content[:, :, differ], kept[0][:, :, differ], atol=1e-2)


def test_each_sibling_holds_what_it_would_hold_alone(new_engine: MakeEngine) -> None:
    engine = new_engine()
    engine.add(FORKED)
    steps(engine, 20)
    for sibling in running(engine, FORKED.id):
        alone = new_engine()
        alone.add(msgspec.structs.replace(FORKED, n=1, seed=FORKED.seed + sibling.index))
        steps(alone, 20)
        single = running(alone, FORKED.id)[0]
        assert single.tokens == sibling.tokens
        assert torch.allclose(held(alone, single), held(engine, sibling), atol=1e-4)


@pytest.mark.parametrize(
    ("length", "output", "n", "copies"),
    [
        pytest.param(INSIDE, 24, 4, 3, id="all but the last to write copy"),
        pytest.param(INSIDE, 2, 2, 1, id="two"),
        pytest.param(2 * PAGE, 24, 4, 0, id="nothing is shared that will be written"),
        pytest.param(INSIDE, 1, 4, 0, id="nobody writes"),
        pytest.param(INSIDE, 24, 1, 0, id="one"),
    ],
)
@pytest.mark.parametrize("caching", [pytest.param(True, id="cached"), pytest.param(False, id="not cached")])
def test_a_fork_copies_a_shared_page_for_each_writer_but_one(
    new_engine: MakeEngine, length: int, output: int, n: int, copies: int, caching: bool
) -> None:
    engine = new_engine(prefix_caching=caching)
    answers = finish(engine, [ask("r", prompt("r", length), SEEDED, output, n=n)])
    assert answers.steps[-1].page_copies_total == copies
    assert [len(tokens) for tokens in answers.of("r")] == [output] * n


def test_a_fork_uses_pages_of_its_own_for_what_differs_only(new_engine: MakeEngine) -> None:
    used = [stats.blocks_used for stats in finish(new_engine(), [FORKED]).steps]
    assert used[0] == 3
    assert used[1] == 2 + N
    assert max(used) == 2 + 2 * N


def started(engine: Engine, request: AddRequest, count: int) -> Answers:
    engine.add(request)
    return steps(engine, count)


def test_a_partial_tail_is_shared_while_the_first_still_runs(new_engine: MakeEngine, alone: Alone) -> None:
    """The first goes on in the cached tail itself, behind what is named; the second comes while it does, and copies."""
    engine, ids = new_engine(), prompt("tail", INSIDE + 1)
    finish(engine, [ask("before", ids[:INSIDE], max_tokens=1)])
    first, second = (ask(name, ids, SEEDED, 20, seed=seed) for name, seed in (("first", 1), ("second", 2)))
    begun = started(engine, first, 4)
    assert (begun.cached["first"], begun.steps[-1].page_copies_total) == (INSIDE, 0)
    answers = finish(engine, [second])
    assert (answers.cached["second"], answers.steps[-1].page_copies_total) == (INSIDE, 1)
    assert answers.steps[0].blocks_used == 4  # two in common, a tail each
    assert [begun.of("first")[0] + answers.of("first")[0], answers.of("second")[0]] == [alone(first), alone(second)]


def test_two_at_once_share_a_cached_tail_and_one_of_them_copies(new_engine: MakeEngine, alone: Alone) -> None:
    engine, ids = new_engine(), prompt("tail", INSIDE + 1)
    finish(engine, [ask("before", ids[:INSIDE], max_tokens=1)])
    both = [ask(name, ids, SEEDED, 20, seed=seed) for name, seed in (("first", 1), ("second", 2))]
    answers = finish(engine, both)
    assert [answers.cached[one.id] for one in both] == [INSIDE, INSIDE]
    assert answers.steps[-1].page_copies_total == 1
    assert [answers.of(one.id)[0] for one in both] == [alone(one) for one in both]


def test_a_cached_tail_that_goes_on_otherwise_is_copied_and_stays_findable(
    new_engine: MakeEngine, alone: Alone
) -> None:
    engine, ids = new_engine(), prompt("tail", INSIDE)
    finish(engine, [ask("before", ids, max_tokens=1)])
    other = ask("other", [*ids[:-2], *prompt("other", 9)], SEEDED)
    answers = finish(engine, [other])
    assert (answers.cached["other"], answers.steps[-1].page_copies_total) == (INSIDE - 2, 1)
    assert answers.of("other") == [alone(other)]
    again = finish(engine, [ask("again", [*ids, 1], max_tokens=1)])
    assert again.cached["again"] == INSIDE
