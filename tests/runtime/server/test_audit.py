"""An engine process whose books go wrong: with `--audit` it ends, clients are told, and another one comes up.

The books are broken from outside: Python runs a `sitecustomize` module of this test in every process of the server, which waits in
the engine for a signal and then loses a page of the pool it finds there.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.runtime.server.running import START_TIMEOUT_S, RunningServer, running_server, until
from tests.runtime.server.streams import Stream

DELAY_S = 1.5
BREAK_THE_BOOKS = """
import gc, signal, sys

def lose_a_page(number, frame):
    from octavo_runtime.engine.block_pool import BlockPool

    gc.unfreeze()  # what the engine was started with is not looked through otherwise
    for pool in [one for one in gc.get_objects() if type(one) is BlockPool]:
        pool._blank.pop()

if "octavo_runtime.engine" in sys.orig_argv:
    signal.signal(signal.SIGUSR1, lose_a_page)
"""


@pytest.fixture(scope="module")
def server(tiny_chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    folder = tmp_path_factory.mktemp("audited-server")
    (folder / "sitecustomize.py").write_text(BREAK_THE_BOOKS)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=":")
        with running_server(tiny_chat_model, folder, "--audit", "--scheduler-delay-ms", str(1000 * DELAY_S)) as running:
            yield running


def sample(server: RunningServer, name: str, **labels: str) -> float:
    families = text_string_to_metric_families(server.get("/metrics")[1])
    found = [one for family in families for one in family.samples if one.name == name]
    return next((one.value for one in found if labels.items() <= one.labels.items()), 0.0)


def content(text: str) -> dict[str, object]:
    return {"messages": [{"role": "user", "content": text}]}


def test_an_idle_engine_waits_the_delay_and_begins_with_all_who_came(server: RunningServer) -> None:
    steps = sample(server, "octavo_batch_size_count")
    single = sample(server, "octavo_batch_size_bucket", le="1.0")
    started_s = time.monotonic()
    with Stream(server, 5, False, **content("one")) as one, Stream(server, 5, False, **content("two")) as two:
        one.begin()
        assert time.monotonic() - started_s >= DELAY_S
        two.begin()
    until(lambda: sample(server, "octavo_batch_size_count") == steps + 5)
    assert sample(server, "octavo_batch_size_bucket", le="1.0") == single


def test_broken_books_end_the_engine_and_another_comes_up(server: RunningServer) -> None:
    before = server.state()["engine"]
    with Stream(server) as streamed, Stream(server, stream=False) as whole:
        streamed.begin()
        os.kill(before["pid"], signal.SIGUSR1)
        error = streamed.rest()[-1]["error"]
        assert (error["type"], error["code"]) == ("server_error", "engine_failed")
        assert "exit code 1" in error["message"]
        assert whole.response().status == 500
    with Stream(server) as late:
        assert late.response().status == 503
    assert "PoolError: the pages do not add up" in server.log.read_text()
    until(lambda: server.get("/ready")[0] == 200, START_TIMEOUT_S)
    assert server.state()["engine"]["restarts"] == before["restarts"] + 1
    with Stream(server, 3, stream=False) as answer:
        answer.begin()
