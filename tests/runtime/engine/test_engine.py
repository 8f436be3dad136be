"""The engine and `LLM` on a tiny seeded model: draws, endings, refusals, flags that cannot be. No page is left behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.llm import LLM, Completion, RefusedError
from octavo_runtime.messages import AddRequest, BeamSearch, Sampling
from octavo_runtime.model.config import ModelError
from tests.runtime.engine.tiny_engine import GREEDY, PAGE, Alone, MakeEngine, ask, assert_idle, finish, prompt

REQUESTS = [ask(f"r{length}", prompt(f"r{length}", length), GREEDY, 24) for length in (5, 14, 23, 32)]
PAGE_BYTES = 2 * 4096  # of 16 tokens, in both layers


@pytest.fixture
def llm(tiny: Path) -> Iterator[LLM]:
    llm = LLM(ServeConfig(str(tiny), dtype="float32", kv_cache_memory=8 << 20, block_size=str(PAGE)))
    yield llm
    llm.engine.scheduler.audit()
    assert_idle(llm.engine)


def answers(llm: LLM, requests: list[AddRequest]) -> list[list[int]]:
    return [completion.token_ids for completion in llm.generate(requests)]


def test_completions_come_by_request_and_index(llm: LLM, alone: Alone) -> None:
    several = ask("several", prompt("several", 20), Sampling(), 10, n=3, seed=4)
    beams = ask("beams", prompt("beams", 20), GREEDY, 10, n=2, beam=BeamSearch(3))
    completions = llm.generate([REQUESTS[1], several, REQUESTS[0], beams])
    choices = [alone(ask("one", several.prompt_ids, Sampling(), 10, seed=4 + index)) for index in range(3)]
    assert [one.token_ids for one in completions[:5]] == [alone(REQUESTS[1]), *choices, alone(REQUESTS[0])]
    assert [(len(one.token_ids), one.finish_reason) for one in completions[5:]] == [(10, "length")] * 2
    assert completions[5] == Completion(finish(llm.engine, [beams]).of("beams")[0], "length", 0)


def test_cached_tokens_are_told_once_a_request(llm: LLM) -> None:
    request = ask("r", prompt("cached", 40), Sampling(), 4, n=3)
    llm.generate([request])
    assert [one.cached_tokens for one in llm.generate([request])] == [39, 0, 0]


def test_another_seed_draws_otherwise(llm: LLM) -> None:
    ids = prompt("seeds", 20)
    first, second = (answers(llm, [ask("r", ids, Sampling(), seed=seed)])[0] for seed in (1, 2**40))
    assert first != second


def test_banned_end_ids_are_not_drawn_before_min_tokens(llm: LLM, alone: Alone) -> None:
    request = REQUESTS[1]
    end = alone(request)[3]
    early = answers(llm, [ask("r", request.prompt_ids, GREEDY, 24, eos_ids=[end])])[0]
    assert early == alone(request)[: alone(request).index(end) + 1]
    late = answers(llm, [ask("r", request.prompt_ids, GREEDY, 24, eos_ids=[end], min_tokens=10)])[0]
    assert end not in late[:10]


def test_a_refused_request_raises_and_leaves_the_engine_usable(llm: LLM, alone: Alone) -> None:
    with pytest.raises(RefusedError, match="context of 512"):
        llm.generate([*REQUESTS, ask("long", [1] * 600)])
    assert_idle(llm.engine)
    assert answers(llm, REQUESTS) == [alone(request) for request in REQUESTS]


def test_an_id_in_use_is_refused_and_its_owner_goes_on(new_engine: MakeEngine, alone: Alone) -> None:
    engine = new_engine()
    engine.add(REQUESTS[0])
    engine.add(REQUESTS[0])
    outputs = engine.step()
    assert outputs is not None
    error = outputs.outputs[0].error
    assert error is not None
    assert "the id r5 is in use" in error.message
    assert outputs.outputs[1].token_ids + finish(engine, []).of("r5")[0] == alone(REQUESTS[0])


def test_generate_wants_an_id_for_each_request(llm: LLM) -> None:
    with pytest.raises(ValueError, match="the same id"):
        llm.generate([REQUESTS[0], REQUESTS[0]])


def test_the_pool_is_what_the_flag_gives(new_engine: MakeEngine) -> None:
    info = new_engine(pages=13).info
    assert (info.block_size, info.num_blocks, info.kv_cache_bytes) == (PAGE, 13, 14 * PAGE_BYTES)
    assert (info.max_model_len, info.max_num_seqs) == (512, 13)  # the model's own context: longer requests are refused


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        pytest.param({"kv_cache_memory": 100}, "--kv-cache-memory: 100 bytes hold no KV page", id="no page"),
        pytest.param({"kv_cache_memory": 1 << 60}, "more than the .* available", id="too much memory"),
        pytest.param({"max_model_len": 513}, "--max-model-len 513 is more than the model's 512", id="context"),
        pytest.param(
            {"max_model_len": 512, "kv_cache_memory": 14 * PAGE_BYTES}, "needs 32 KV pages .* holds 13", id="pages"
        ),
        pytest.param({"device": "cuda"}, "--device cuda", id="device"),
        pytest.param({"tensor_parallel_size": 3}, "--tensor-parallel-size 3.* give one of 1, 2, 4, 8", id="ranks"),
    ],
)
def test_flags_that_cannot_be_are_refused_by_name(tiny: Path, flags: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Engine(ServeConfig(str(tiny), **{"block_size": "16", "dtype": "float32", **flags}))  # type: ignore[arg-type]  # a table of flags


def test_a_missing_model_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist: give a GGUF file or a folder"):
        Engine(ServeConfig(str(tmp_path / "absent")))
