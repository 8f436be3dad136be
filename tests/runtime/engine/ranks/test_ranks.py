"""Engines whose model several processes share: they answer as one rank does, and end by name when one of them fails."""

import dataclasses
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.ranks import verdict
from octavo_runtime.messages import AddRequest, BeamSearch, Sampling
from octavo_runtime.model.collectives import RankError
from tests.runtime.engine.tiny_engine import (
    GREEDY,
    PAGE,
    SEEDED,
    Alone,
    Answers,
    MakeEngine,
    ask,
    assert_idle,
    finish,
    prompt,
    step,
)

PAGES = 24
SESSIONS, SESSION_TOKENS = 6, 100  # of 7 pages each


@pytest.fixture(scope="module")
def shared(new_engine: MakeEngine) -> Iterator[Engine]:
    engine = new_engine(PAGES, tensor_parallel_size=2, max_num_batched_tokens=64, kv_tier_memory=1 << 20)
    engine.warm_up()
    yield engine
    engine.close()


def processes() -> list[int]:
    """This process's children that are ranks."""
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [int(child) for child in children if b"engine.ranks" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.parametrize(
    "request_of",
    [
        pytest.param(ask("greedy", prompt("greedy", 100), GREEDY, 24), id="greedy, in chunks"),
        pytest.param(ask("drawn", prompt("drawn", 30), SEEDED, 24, seed=5), id="drawn"),
        pytest.param(ask("banned", prompt("banned", 9), GREEDY, 12, eos_ids=[7], min_tokens=12), id="banned ids"),
    ],
)
def test_answers_are_those_of_one_rank(shared: Engine, alone: Alone, request_of: AddRequest) -> None:
    assert finish(shared, [request_of]).of(request_of.id) == [alone(request_of)]


def test_requests_in_company_choices_and_beams_are_those_of_one_rank(shared: Engine, new_engine: MakeEngine) -> None:
    requests = [ask(f"r{length}", prompt(f"r{length}", length), GREEDY, 12) for length in (5, 14, 23, 32)]
    requests.append(ask("several", prompt("several", 20), Sampling(), 10, n=3, seed=4))
    requests.append(ask("beams", prompt("beams", 20), GREEDY, 6, n=2, beam=BeamSearch(3)))
    one = finish(new_engine(max_num_batched_tokens=64), requests)
    assert finish(shared, requests).tokens == one.tokens


def test_a_prompt_that_was_seen_is_found_in_every_ranks_cache(shared: Engine) -> None:
    request = ask("again", prompt("again", 50), GREEDY, 8)
    first = finish(shared, [request])
    second = finish(shared, [request])
    assert (first.cached["again"], second.cached["again"]) == (0, 49)
    assert second.tokens == first.tokens


def test_an_abort_ends_a_request_and_the_others_go_on(shared: Engine, alone: Alone) -> None:
    stays, goes = ask("stays", prompt("stays", 20), GREEDY, 20), ask("goes", prompt("goes", 20), GREEDY, 200)
    answers = Answers()
    shared.add(stays)
    shared.add(goes)
    for _ in range(5):
        step(shared, answers)
    shared.abort(["goes"])
    rest = finish(shared, [])
    assert answers.of("stays")[0] + rest.of("stays")[0] == alone(stays)
    assert_idle(shared)


def test_a_history_larger_than_the_pool_comes_back_from_a_tier_on_every_rank(shared: Engine, alone: Alone) -> None:
    sessions = [
        ask(f"s{index}", prompt(f"s{index}", SESSION_TOKENS), GREEDY, 4, seed=index) for index in range(SESSIONS)
    ]
    for session in sessions:
        finish(shared, [session])
    again = [finish(shared, [session]) for session in sessions]
    assert [answers.of(session.id)[0] for answers, session in zip(again, sessions, strict=True)] == list(
        map(alone, sessions)
    )
    assert sum(answers.cached[session.id] for answers, session in zip(again, sessions, strict=True)) > PAGES * PAGE
    assert again[-1].steps[-1].tier_hits_tokens_total > 0


@dataclasses.dataclass(frozen=True)
class Failing:
    """An engine of two ranks, warmed, and the process of rank 1."""

    engine: Engine
    process: int

    def run(self) -> None:
        while True:
            self.engine.step()


@pytest.fixture
def failing(new_engine: MakeEngine) -> Iterator[Failing]:
    before = processes()
    engine = new_engine(tensor_parallel_size=2)
    engine.warm_up()
    (process,) = set(processes()) - set(before)
    yield Failing(engine, process)
    engine.close()


def test_a_killed_rank_ends_an_idle_engine_with_its_name_and_last_step(failing: Failing) -> None:
    finish(failing.engine, [ask("r", [1, 2, 3], max_tokens=4)])
    os.kill(failing.process, signal.SIGKILL)
    started_s = time.monotonic()
    with pytest.raises(
        RankError, match=rf"^rank 1 \(process {failing.process}\) ended \(signal SIGKILL\): its last step was \d+$"
    ):
        failing.run()
    assert time.monotonic() - started_s < 5
    failing.engine.close()
    assert failing.process not in processes()


def test_a_rank_that_stops_in_a_step_is_named_and_the_engine_ends(
    failing: Failing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "HUNG_AFTER_S", 2.0)
    failing.engine.add(ask("long", prompt("long", 20), GREEDY, 400))
    for _ in range(5):
        failing.engine.step()
    os.kill(failing.process, signal.SIGSTOP)
    started_s = time.monotonic()
    with pytest.raises(
        RankError,
        match=rf"^rank 1 \(process {failing.process}\) hangs: rank 0 has waited .* \d+ s; its last step was \d+$",
    ):
        failing.run()
    assert time.monotonic() - started_s < 10


def test_a_rank_that_does_not_come_up_is_why_the_engine_cannot_start(tiny: Path, tmp_path: Path) -> None:
    before = processes()
    config = ServeConfig(str(tiny), dtype="float32", tensor_parallel_size=2, kv_cache_memory=1 << 20)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))  # of the ranks that are started: their torch is not there
        (tmp_path / "torch").mkdir()
        (tmp_path / "torch" / "__init__.py").write_text("raise ImportError('no torch here')")
        with pytest.raises(RankError, match=r"rank 1 \(process \d+\) ended \(exit code 1\): it had begun no step"):
            Engine(config)
    assert processes() == before


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        pytest.param({"tensor_parallel_size": 3}, r"--tensor-parallel-size 3: .* give one of 1, 2, 4, 8$", id="degree"),
        pytest.param({"tensor_parallel_size": 2, "batch_invariant": True}, "--batch-invariant with", id="invariance"),
    ],
)
def test_what_cannot_be_shared_is_refused_before_anything_starts(
    tiny: Path, flags: dict[str, object], text: str
) -> None:
    before = processes()
    with pytest.raises(ConfigError, match=text):
        Engine(ServeConfig(str(tiny), dtype="float32", **flags))  # type: ignore[arg-type]  # a table of flags
    assert processes() == before
