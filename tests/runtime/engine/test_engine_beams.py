"""Beam search on the tiny model against transformers' `generate` in fp32.

Without an EOS both are the same search: `width` beams to the fixed length, the best returned. With one they stop by the same rule
(transformers' `early_stopping="never"`: no live beam can overtake the worst finished one), but take finished texts differently:
transformers only those among the `width` best offers of a step, we those among the 2 · width that were looked at. So we have all
of its finished texts and some more: each of our results scores at least as well as transformers' of the same rank, and where the
two score alike they are the same text. That comparison needs a positive length penalty, with which the stopping rule is a bound.
"""

import math

import msgspec
import pytest
import torch
import transformers

from octavo_runtime.messages import AddRequest, BeamSearch
from tests.runtime.engine.tiny_engine import GREEDY, MakeEngine, ask, finish, make_outputs_look_short, prompt

PADDING = 256  # outside the vocabulary
ROUNDING = 1e-4  # of a text's log-probability
OUTPUT = 12
PROMPTS = {length: prompt(f"beams {length}", length) for length in (3, 16, 37)}
BY_LENGTH = pytest.mark.parametrize("length", [pytest.param(length, id=f"{length} tokens") for length in PROMPTS])


def beams(length: int, width: int, n: int, penalty: float = 1.0, eos: list[int] | None = None) -> AddRequest:
    search = BeamSearch(width, penalty)
    return ask(f"b{length}", PROMPTS[length], GREEDY, OUTPUT, n=n, beam=search, eos_ids=eos or [])


def searched(model: transformers.PreTrainedModel, request: AddRequest) -> list[list[int]]:
    """What transformers returns, best first, without its padding."""
    assert request.beam is not None
    ids = torch.tensor([request.prompt_ids])
    found = model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        num_beams=request.beam.width,
        num_return_sequences=request.n,
        length_penalty=request.beam.length_penalty,
        early_stopping="never",
        do_sample=False,
        max_new_tokens=request.max_tokens,
        eos_token_id=request.eos_ids or None,
        pad_token_id=PADDING,
    )
    return [[token for token in row[len(request.prompt_ids) :].tolist() if token != PADDING] for row in found]


def score(model: transformers.PreTrainedModel, request: AddRequest, answer: list[int]) -> float:
    assert request.beam is not None
    with torch.inference_mode():
        logits = model(torch.tensor([request.prompt_ids + answer])).logits[0, len(request.prompt_ids) - 1 : -1]
    logprobs = logits.double().log_softmax(-1).gather(1, torch.tensor(answer).unsqueeze(1))
    return float(logprobs.sum()) / math.pow(len(answer), request.beam.length_penalty)


@BY_LENGTH
@pytest.mark.parametrize(
    ("width", "n", "penalty"),
    [
        pytest.param(1, 1, 1.0, id="one beam"),
        pytest.param(4, 4, 1.0, id="all beams"),
        pytest.param(4, 1, 1.0, id="the best one"),
        pytest.param(6, 3, 0.0, id="without length penalty"),
        pytest.param(3, 3, -1.0, id="negative penalty"),
    ],
)
def test_without_an_eos_the_beams_are_those_of_transformers(
    new_engine: MakeEngine, reference: transformers.PreTrainedModel, length: int, width: int, n: int, penalty: float
) -> None:
    request = beams(length, width, n, penalty)
    answers = finish(new_engine(), [request])
    assert answers.of(request.id) == searched(reference, request)
    assert set(answers.reasons.values()) == {"length"}


def test_a_beam_of_one_is_greedy(new_engine: MakeEngine) -> None:
    engine, request = new_engine(), beams(16, 1, 1)
    greedy = ask("greedy", request.prompt_ids, GREEDY, OUTPUT)
    assert finish(engine, [request]).of(request.id) == finish(engine, [greedy]).of("greedy")


@pytest.mark.parametrize(
    ("length", "penalty", "place"),
    [
        pytest.param(3, 0.5, 0, id="all are ended early"),
        pytest.param(3, 1.0, 5, id="the last of the best"),
        pytest.param(16, 0.5, 2, id="ended at several lengths"),
        pytest.param(16, 1.0, 2, id="the best and others"),
        pytest.param(37, 0.5, 0, id="among the last offers"),
        pytest.param(37, 1.0, 5, id="between others"),
    ],
)
def test_with_an_eos_each_result_is_at_least_as_good(
    new_engine: MakeEngine, reference: transformers.PreTrainedModel, length: int, penalty: float, place: int
) -> None:
    """The EOS is a token of the best beam without one: likely enough to end some of the others."""
    eos = searched(reference, beams(length, 4, 1))[0][place]
    request = beams(length, 4, 4, penalty, [eos])
    answers = finish(new_engine(), [request])
    ours, theirs = answers.of(request.id), searched(reference, request)
    scores = [[score(reference, request, answer) for answer in texts] for texts in (ours, theirs)]
    assert "stop" in answers.reasons.values()
    assert scores[0] == sorted(scores[0], reverse=True)
    for rank, (our, their) in enumerate(zip(*scores, strict=True)):
        assert our >= their - ROUNDING
        assert ours[rank] == theirs[rank] or our > their + ROUNDING


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param({}, id="batched"),
        pytest.param({"prefix_caching": False}, id="without prefix cache"),
        pytest.param({"max_num_batched_tokens": 8, "max_num_seqs": 8}, id="small chunks"),
        pytest.param({"batch_invariant": True}, id="batch invariant"),
    ],
)
def test_beams_do_not_depend_on_company(new_engine: MakeEngine, flags: dict[str, object]) -> None:
    requests = [beams(length, 4, 4) for length in PROMPTS]
    alone = [finish(new_engine(), [request]).of(request.id) for request in requests]
    answers = finish(new_engine(**flags), [*requests, ask("greedy", prompt("greedy", 20))])
    assert [answers.of(request.id) for request in requests] == alone


@pytest.mark.parametrize("caching", [pytest.param(True, id="cached"), pytest.param(False, id="not cached")])
def test_beams_that_do_not_all_fit_at_once_find_the_same(new_engine: MakeEngine, caching: bool) -> None:
    """Two pages in common and three for each beam, in a pool of six."""
    request = msgspec.structs.replace(beams(37, 4, 4), max_tokens=30)
    alone = finish(new_engine(), [request]).of(request.id)
    engine = new_engine(pages=6, prefix_caching=caching)
    make_outputs_look_short(engine)
    answers = finish(engine, [request])
    assert answers.of(request.id) == alone
    assert answers.steps[-1].preemptions_total > 0
