"""The engine on tiny seeded models: the same answer alone, in company, chunked and preempted; refusals; no page left behind."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.llm import LLM, RefusedError
from octavo_runtime.messages import AddRequest, Sampling
from octavo_runtime.model.config import ModelError
from tests.runtime.models import save_tiny_model

GREEDY = Sampling(temperature=0.0)
PROMPTS = [[(7 * i + 3 * j) % 256 for j in range(5 + 9 * i)] for i in range(6)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def make_llm(tiny: Path) -> Iterator[Callable[..., LLM]]:
    made: dict[tuple[tuple[str, object], ...], LLM] = {}

    def make(**flags: object) -> LLM:
        key = tuple(sorted(flags.items()))
        if key not in made:
            defaults: dict[str, object] = {"kv_cache_memory": 8 << 20, "block_size": "16"}
            made[key] = LLM(ServeConfig(str(tiny), **{**defaults, **flags}))  # type: ignore[arg-type]  # a table of flags
        return made[key]

    yield make
    for llm in made.values():
        llm.engine.scheduler.audit()
        assert llm.engine.scheduler.pool.used == 0


def requests(sampling: Sampling = GREEDY, output: int = 24) -> list[AddRequest]:
    return [AddRequest(f"r{i}", prompt, sampling, seed=i, max_tokens=output) for i, prompt in enumerate(PROMPTS)]


def answers(llm: LLM, wanted: list[AddRequest]) -> list[list[int]]:
    return [completion.token_ids for completion in llm.generate(wanted)]


@pytest.fixture(scope="module")
def alone(make_llm: Callable[..., LLM]) -> list[list[int]]:
    llm = make_llm()
    return [answers(llm, [request])[0] for request in requests()]


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param({}, id="batched"),
        pytest.param({"max_num_batched_tokens": 8, "max_num_seqs": 6}, id="small chunks"),
        pytest.param({"block_size": "32"}, id="other page size"),
        pytest.param({"kv_cache_memory": 14 * 2 * 4096}, id="preempted"),
    ],
)
def test_answers_do_not_depend_on_company(
    make_llm: Callable[..., LLM], alone: list[list[int]], flags: dict[str, object]
) -> None:
    assert answers(make_llm(**flags), requests()) == alone


def test_the_small_pool_of_that_test_does_preempt(make_llm: Callable[..., LLM]) -> None:
    llm = make_llm(kv_cache_memory=14 * 2 * 4096)
    for request in requests():
        llm.engine.add(request)
    preemptions = 0
    while llm.engine.scheduler.has_work:
        outputs = llm.engine.step()
        assert outputs is not None
        llm.engine.scheduler.audit()
        preemptions = outputs.stats.preemptions_total
    assert preemptions > 0


def test_seeded_draws_are_the_same_alone_and_batched(make_llm: Callable[..., LLM]) -> None:
    wanted = requests(Sampling(temperature=0.9, top_p=0.95, top_k=40))
    llm = make_llm()
    together = answers(llm, wanted)
    assert [answers(llm, [request])[0] for request in wanted] == together


def test_another_seed_draws_otherwise(make_llm: Callable[..., LLM]) -> None:
    llm = make_llm()
    first, second = (
        answers(llm, [AddRequest("r", PROMPTS[2], Sampling(), seed=seed, max_tokens=24)])[0] for seed in (1, 2**40)
    )
    assert first != second


def test_banned_end_ids_are_not_drawn_before_min_tokens(make_llm: Callable[..., LLM], alone: list[list[int]]) -> None:
    end = alone[1][3]
    llm = make_llm()
    early = answers(llm, [AddRequest("r", PROMPTS[1], GREEDY, 0, eos_ids=[end], max_tokens=24)])[0]
    assert early == alone[1][: alone[1].index(end) + 1]
    late = answers(llm, [AddRequest("r", PROMPTS[1], GREEDY, 0, eos_ids=[end], max_tokens=24, min_tokens=10)])[0]
    assert end not in late[:10]


def test_a_refused_request_raises_and_leaves_the_engine_usable(
    make_llm: Callable[..., LLM], alone: list[list[int]]
) -> None:
    llm = make_llm()
    with pytest.raises(RefusedError, match="context of 512"):
        llm.generate([*requests(), AddRequest("long", [1] * 600, GREEDY, 0)])
    assert llm.engine.scheduler.pool.used == 0
    assert answers(llm, requests()) == alone


def test_the_pool_is_what_the_flag_gives(make_llm: Callable[..., LLM]) -> None:
    info = make_llm(kv_cache_memory=14 * 2 * 4096).engine.info
    assert (info.block_size, info.num_blocks, info.kv_cache_bytes) == (16, 13, 14 * 2 * 4096)
    assert info.max_model_len == 13 * 16


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        pytest.param({"kv_cache_memory": 100}, "--kv-cache-memory: 100 bytes hold no KV page", id="no page"),
        pytest.param({"kv_cache_memory": 1 << 60}, "more than the .* available", id="too much memory"),
        pytest.param({"max_model_len": 513}, "--max-model-len 513 is more than the model's 512", id="context"),
        pytest.param(
            {"max_model_len": 512, "kv_cache_memory": 14 * 2 * 4096}, "needs 32 KV pages .* holds 13", id="pages"
        ),
        pytest.param({"device": "cuda"}, "--device cuda", id="device"),
        pytest.param({"tensor_parallel_size": 2}, "--tensor-parallel-size 2", id="ranks"),
    ],
)
def test_flags_that_cannot_be_are_refused_by_name(tiny: Path, flags: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Engine(ServeConfig(str(tiny), **{"block_size": "16", **flags}))  # type: ignore[arg-type]  # a table of flags


def test_a_missing_model_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="does not exist: give a GGUF file or a folder"):
        Engine(ServeConfig(str(tmp_path / "absent")))
