"""The same answer whatever the company: alone, in a batch, preempted, from a cached prefix, in other pages and chunks.

In fp32 the logits of a row differ in their last digits from batch to batch, so tokens are equal where no draw hangs on these.
The first test shows that none here does: every answer stays what it is with a noise on the logits that is far larger.
"""

import msgspec
import pytest
import torch
import transformers

from octavo_runtime.messages import AddRequest
from octavo_runtime.model.sampler import Row, sample
from tests.runtime.engine.tiny_engine import (
    GREEDY,
    PAGE,
    SEEDED,
    Alone,
    Answers,
    MakeEngine,
    ask,
    finish,
    make_outputs_look_short,
    prompt,
)

OUTPUT = 20
NOISE = 1e-3
LAST_SEED = 2**64 - 1
REQUESTS = [
    ask(f"{name} {length}", prompt(f"{name} {length}", length), sampling, OUTPUT, seed=length)
    for length in (1, 15, 16, 23, 40, 63)
    for name, sampling in (("greedy", GREEDY), ("seeded", SEEDED))
]
LONG = REQUESTS[-1]
WIDE = [LONG, REQUESTS[5], REQUESTS[7], msgspec.structs.replace(REQUESTS[7], seed=LAST_SEED)]
WIDE_IDS = ["the last page is full but for one", "one page", "inside a page", "seeds wrap at 64 bits"]


def seeds(request: AddRequest, n: int = 3) -> list[AddRequest]:
    """The request as often as it has choices, each with its choice's seed."""
    return [msgspec.structs.replace(request, seed=(request.seed + index) % 2**64) for index in range(n)]


def assert_same(answers: Answers, requests: list[AddRequest], alone: Alone) -> None:
    assert {request.id: answers.of(request.id) for request in requests} == {
        request.id: [alone(request)] for request in requests
    }


ALL = [*REQUESTS, *(one for request in WIDE for one in seeds(request) if one not in REQUESTS)]


@pytest.mark.parametrize("request_", [pytest.param(one, id=f"{one.id}, seed {one.seed}") for one in ALL])
def test_no_draw_of_these_answers_hangs_on_rounding(
    request_: AddRequest, alone: Alone, reference: transformers.PreTrainedModel
) -> None:
    """And each is what transformers' logits give."""
    answer, length = alone(request_), len(request_.prompt_ids)
    with torch.inference_mode():
        logits = reference(torch.tensor([request_.prompt_ids + answer])).logits[0, length - 1 : -1]
    rows = [Row(request_.sampling, request_.seed, length + index) for index in range(len(answer))]
    for seed in range(3):
        noise = NOISE * (2 * torch.rand(logits.shape, generator=torch.Generator().manual_seed(seed)) - 1)
        assert [draw.tokens[0] for draw in sample(logits + noise, rows)] == answer


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param({}, id="pages of 16"),
        pytest.param({"block_size": "32"}, id="pages of 32"),
        pytest.param({"block_size": "64"}, id="pages of 64"),
        pytest.param({"prefix_caching": False}, id="without prefix cache"),
        pytest.param({"max_num_batched_tokens": 8, "max_num_seqs": 6}, id="small chunks"),
        pytest.param({"max_num_batched_tokens": 64, "max_num_seqs": 64, "prefill_percent": 5}, id="tiny share"),
        pytest.param({"max_num_batched_tokens": 512, "chunked_prefill": False}, id="without chunks"),
        pytest.param({"batch_invariant": True}, id="batch invariant"),
    ],
)
def test_answers_do_not_depend_on_company_chunks_or_pages(
    new_engine: MakeEngine, alone: Alone, flags: dict[str, object]
) -> None:
    answers = finish(new_engine(**flags), REQUESTS)
    assert_same(answers, REQUESTS, alone)
    assert max(stats.batch_size for stats in answers.steps) >= 5


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param({}, id="from cached pages where they are left"),
        pytest.param({"prefix_caching": False}, id="from nothing"),
        pytest.param({"max_num_batched_tokens": 16, "max_num_seqs": 12}, id="in small chunks"),
    ],
)
def test_a_preempted_answer_goes_on_as_if_nothing_had_happened(
    new_engine: MakeEngine, alone: Alone, flags: dict[str, object]
) -> None:
    engine = new_engine(pages=14, memory_ladder=False, **flags)
    make_outputs_look_short(engine)
    answers = finish(engine, REQUESTS)
    assert answers.steps[-1].preemptions_total > 0
    assert_same(answers, REQUESTS, alone)


@pytest.mark.parametrize(
    ("before", "cached"),
    [
        pytest.param(LONG.prompt_ids, 62, id="the whole prompt but its last token"),
        pytest.param([*LONG.prompt_ids[:48], *prompt("other", 16)], 48, id="whole pages"),
        pytest.param([*LONG.prompt_ids[:40], *prompt("other", 24)], 40, id="to the middle of a full page"),
        pytest.param(LONG.prompt_ids[:40], 40, id="a whole partial page"),
        pytest.param([*LONG.prompt_ids[:37], *prompt("other", 3)], 37, id="to the middle of a partial page"),
        pytest.param(LONG.prompt_ids[:5], 5, id="less than a page"),
    ],
)
@pytest.mark.parametrize("request_", [pytest.param(request, id=request.id) for request in REQUESTS[-2:]])
def test_an_answer_from_a_cached_prefix_is_the_same(
    new_engine: MakeEngine, alone: Alone, request_: AddRequest, before: list[int], cached: int
) -> None:
    own = msgspec.structs.replace(request_, prompt_ids=LONG.prompt_ids)
    engine = new_engine()
    finish(engine, [ask("before", before, max_tokens=1)])
    answers = finish(engine, [own])
    assert answers.cached[own.id] == cached
    assert_same(answers, [own], alone)


@pytest.mark.parametrize("request_", WIDE, ids=WIDE_IDS)
@pytest.mark.parametrize("company", [pytest.param([], id="alone"), pytest.param(REQUESTS[:5], id="in company")])
def test_choice_i_is_the_request_alone_with_seed_plus_i(
    new_engine: MakeEngine, alone: Alone, request_: AddRequest, company: list[AddRequest]
) -> None:
    answers = finish(new_engine(), [*company, msgspec.structs.replace(request_, n=3)])
    choices = [alone(one) for one in seeds(request_)]
    assert len({tuple(choice) for choice in choices}) == 3
    assert answers.of(request_.id) == choices
    assert_same(answers, company, alone)


def test_choices_are_the_same_when_they_were_preempted(new_engine: MakeEngine, alone: Alone) -> None:
    engine = new_engine(pages=8)
    make_outputs_look_short(engine)
    answers = finish(engine, [msgspec.structs.replace(request, n=3) for request in WIDE[:3]])
    assert answers.steps[-1].preemptions_total > 0
    for request in WIDE[:3]:
        assert answers.of(request.id) == [alone(one) for one in seeds(request)]


def test_what_an_engine_drew_before_does_not_matter(new_engine: MakeEngine, alone: Alone) -> None:
    engine = new_engine()
    engine.warm_up()
    finish(engine, [ask("before", prompt("before", PAGE), SEEDED)])
    assert_same(finish(engine, [LONG]), [LONG], alone)
