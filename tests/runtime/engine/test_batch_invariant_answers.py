"""`--batch-invariant` through the engine: sampled answers, chosen without regard to how close a draw is, in every kind of company.

That the logits behind them are equal bit by bit is tested where they are computed, in `tests/runtime/model`.
"""

import msgspec
import pytest

from octavo_runtime.messages import Sampling
from tests.runtime.engine.tiny_engine import Alone, MakeEngine, ask, finish, make_outputs_look_short, prompt

HOT = Sampling(temperature=1.5)
REQUESTS = [ask(f"hot {length}", prompt(f"hot {length}", length), HOT, 60, seed=length) for length in range(3, 63, 6)]


@pytest.fixture(scope="module")
def alone_in_tiles(new_engine: MakeEngine) -> Alone:
    return Alone(lambda **flags: new_engine(batch_invariant=True, **flags))


@pytest.mark.parametrize(
    ("pages", "preempts", "flags"),
    [
        pytest.param(128, False, {}, id="together"),
        pytest.param(
            64, False, {"max_num_batched_tokens": 16, "max_num_seqs": 16, "block_size": "32"}, id="in small chunks"
        ),
        pytest.param(20, True, {}, id="preempted"),
    ],
)
def test_answers_do_not_depend_on_company(
    new_engine: MakeEngine, alone_in_tiles: Alone, pages: int, preempts: bool, flags: dict[str, object]
) -> None:
    engine = new_engine(pages=pages, batch_invariant=True, **flags)
    make_outputs_look_short(engine)
    answers = finish(engine, REQUESTS)
    assert (answers.steps[-1].preemptions_total > 0) == preempts
    assert {request.id: answers.of(request.id) for request in REQUESTS} == {
        request.id: [alone_in_tiles(request)] for request in REQUESTS
    }


def test_answers_do_not_depend_on_cached_pages(new_engine: MakeEngine, alone_in_tiles: Alone) -> None:
    engine = new_engine(batch_invariant=True)
    finish(engine, REQUESTS)
    again = [msgspec.structs.replace(request, id=f"again {request.id}") for request in REQUESTS]
    answers = finish(engine, again)
    assert answers.cached[again[-1].id] > 0
    assert [answers.of(request.id) for request in again] == [[alone_in_tiles(request)] for request in REQUESTS]
