"""Engines with tiers on a tiny model: sessions whose history is larger than the pool, answers as without tiers."""

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from octavo_runtime.config import ConfigError
from octavo_runtime.engine.core import Engine
from tests.runtime.engine.tiny_engine import (
    PAGE,
    Alone,
    Answers,
    MakeEngine,
    ask,
    assert_idle,
    finish,
    make_outputs_look_short,
    prompt,
    step,
)

SESSIONS, PAGES = 4, 16  # of sessions of 7 pages


@contextlib.contextmanager
def engine_with(new_engine: MakeEngine, pages: int = PAGES, **flags: object) -> Iterator[Engine]:
    engine = new_engine(pages=pages, **flags)
    try:
        yield engine
    finally:
        engine.close()


def turn(engine: Engine, length: int = 100) -> Answers:
    """Every session's prompt up to this length, one session after the other."""
    answers = Answers()
    for session in range(SESSIONS):
        one = finish(engine, [ask(f"{session}", prompt(f"session {session}", length), max_tokens=4)])
        answers.tokens |= one.tokens
        answers.cached |= one.cached
        answers.steps += one.steps
    return answers


def assert_right(answers: Answers, alone: Alone, length: int = 100) -> None:
    for session in range(SESSIONS):
        want = alone(ask(f"{session}", prompt(f"session {session}", length), max_tokens=4))
        assert answers.of(f"{session}") == [want]


def block_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*/*.kv"), key=lambda path: path.stat().st_mtime_ns)


@pytest.mark.parametrize(
    ("memory", "disk"),
    [
        pytest.param("1Mi", False, id="memory"),
        pytest.param(None, True, id="disk"),
        pytest.param("64Ki", True, id="little memory and disk"),
    ],
)
def test_a_history_larger_than_the_pool_is_not_computed_again(
    new_engine: MakeEngine, alone: Alone, tmp_path: Path, memory: str | None, disk: bool
) -> None:
    sizes = {"1Mi": 1 << 20, "64Ki": 64 << 10}
    flags: dict[str, Any] = {
        "kv_tier_memory": sizes[memory] if memory else None,
        "kv_tier_disk": str(tmp_path) if disk else None,
    }
    with engine_with(new_engine, **flags) as engine:
        turn(engine)
        again = turn(engine, 100 + PAGE)
    assert_right(again, alone, 100 + PAGE)
    assert list(again.cached.values()) == [100 // PAGE * PAGE] * SESSIONS
    assert again.steps[-1].tier_hits_tokens_total >= (SESSIONS - 2) * 100 // PAGE * PAGE


def test_without_tiers_it_is(new_engine: MakeEngine) -> None:
    with engine_with(new_engine) as engine:
        turn(engine)
        assert sum(turn(engine).cached.values()) < 100


def test_a_restarted_engine_begins_with_what_the_disk_has(new_engine: MakeEngine, alone: Alone, tmp_path: Path) -> None:
    with engine_with(new_engine, kv_tier_disk=str(tmp_path)) as engine:
        turn(engine)
        engine.step()  # nothing to do: what the pool has is written too
        give_up_s = time.monotonic() + 10.0
        while len(block_files(tmp_path)) < SESSIONS * (100 // PAGE):
            assert time.monotonic() < give_up_s
            engine.step()
            time.sleep(0.001)
    with engine_with(new_engine, kv_tier_disk=str(tmp_path)) as engine:
        again = turn(engine)
    assert_right(again, alone)
    assert list(again.cached.values()) == [100 // PAGE * PAGE] * SESSIONS


def test_what_the_cache_holds_at_the_end_is_there_after_a_restart(
    new_engine: MakeEngine, alone: Alone, tmp_path: Path
) -> None:
    """More blocks than the disk's queue takes at once, and none written before."""
    with engine_with(new_engine, pages=40, kv_tier_disk=str(tmp_path)) as engine:
        turn(engine)
    assert len(block_files(tmp_path)) == SESSIONS * (100 // PAGE)
    with engine_with(new_engine, pages=40, kv_tier_disk=str(tmp_path)) as engine:
        again = turn(engine)
    assert_right(again, alone)
    assert list(again.cached.values()) == [100 // PAGE * PAGE] * SESSIONS


def test_another_page_size_finds_nothing_of_it(new_engine: MakeEngine, alone: Alone, tmp_path: Path) -> None:
    with engine_with(new_engine, kv_tier_disk=str(tmp_path)) as engine:
        turn(engine)
    with engine_with(new_engine, pages=PAGES // 2, block_size="32", kv_tier_disk=str(tmp_path)) as engine:
        again = turn(engine)
    assert_right(again, alone)
    assert set(again.cached.values()) == {0}


def test_torn_and_changed_files_are_computed_again(new_engine: MakeEngine, alone: Alone, tmp_path: Path) -> None:
    with engine_with(new_engine, kv_tier_disk=str(tmp_path)) as engine:
        turn(engine)
    for number, path in enumerate(block_files(tmp_path)):
        if number % 3 == 0:
            os.truncate(path, path.stat().st_size // 2)
        elif number % 3 == 1:
            content = path.read_bytes()
            path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with engine_with(new_engine, kv_tier_disk=str(tmp_path)) as engine:
        again = turn(engine)
    assert_right(again, alone)
    assert again.steps[-1].tiers[1].corrupt_total > 0


def test_a_disk_that_hangs_delays_a_prompt_and_nobody_else(
    new_engine: MakeEngine, alone: Alone, tmp_path: Path
) -> None:
    first = ask("0", prompt("session 0", 100), max_tokens=4)
    with engine_with(new_engine, kv_tier_disk=str(tmp_path)) as engine:
        turn(engine)
    stuck = []
    for path in block_files(tmp_path):
        path.unlink()
        os.mkfifo(path)  # whoever opens it to read waits for a writer
        stuck.append(path)
    with engine_with(new_engine, kv_tier_disk=str(tmp_path)) as engine:
        answers, beside = Answers(), ask("beside", prompt("beside", 20), max_tokens=8)
        engine.add(first)
        engine.add(beside)
        while ("0", 0) not in answers.ends:
            step(engine, answers)
        assert next(iter(answers.ends)) == ("beside", 0)
        assert answers.of("0") == [alone(first)]
        assert answers.of("beside") == [alone(beside)]
        for path in stuck:
            with contextlib.suppress(OSError):
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        give_up_s = time.monotonic() + 10.0
        while engine.scheduler.pool.used:
            assert time.monotonic() < give_up_s
            engine.step()
            time.sleep(0.001)
        assert_idle(engine)


def test_preempted_sequences_are_swapped(new_engine: MakeEngine, alone: Alone) -> None:
    with engine_with(new_engine, pages=12, kv_tier_memory=1 << 20) as engine:
        make_outputs_look_short(engine)
        requests = [ask(f"r{index}", prompt(f"r{index}", 20), max_tokens=60) for index in range(4)]
        answers = finish(engine, requests)
        assert answers.steps[-1].swapped_total > 0
        for request in requests:
            assert answers.of(request.id) == [alone(request)]


def test_a_folder_in_use_is_refused(new_engine: MakeEngine, tmp_path: Path) -> None:
    with (
        engine_with(new_engine, kv_tier_disk=str(tmp_path)),
        pytest.raises(ConfigError, match="another runtime has this folder"),
    ):
        new_engine(kv_tier_disk=str(tmp_path))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        pytest.param({"kv_tier_memory": 100}, r"--kv-tier-memory: 100 bytes hold no block of 8,192", id="no block"),
        pytest.param({"kv_tier_memory": 1 << 60}, r"--kv-tier-memory .* more than the .* available", id="too much"),
        pytest.param(
            {"kv_tier_disk": "DIR", "kv_tier_disk_size": 100}, r"--kv-tier-disk-size: 100 bytes hold no", id="no file"
        ),
        pytest.param({"kv_tier_disk_size": 1 << 30}, r"--kv-tier-disk-size .*give --kv-tier-disk", id="no folder"),
        pytest.param(
            {"kv_tier_memory": 1 << 20, "prefix_caching": False}, r"--kv-tier-memory .*prefix", id="no prefix cache"
        ),
    ],
)
def test_tiers_that_cannot_be_are_refused(
    new_engine: MakeEngine, tmp_path: Path, flags: dict[str, object], message: str
) -> None:
    given = {name: str(tmp_path) if value == "DIR" else value for name, value in flags.items()}
    with pytest.raises(ConfigError, match=message):
        new_engine(**given)
