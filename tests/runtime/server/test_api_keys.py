"""Who gets past the keys: by the application itself, and by OpenAI's own client on a real server."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import openai
import pytest

from octavo_runtime.config import ConfigError
from octavo_runtime.server.api_keys import ApiKeys
from octavo_runtime.server.probe_answer import PATHS
from tests.runtime.server.parts import Parts
from tests.runtime.server.running import running_server, until


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "keys"
    path.write_text("first-key\n\n  second-key  \n")
    return path


@pytest.mark.parametrize(
    ("authorization", "accepted"),
    [
        pytest.param("Bearer first-key", True, id="first"),
        pytest.param("bearer second-key", True, id="second, scheme in other letters"),
        pytest.param("Bearer first-key ", True, id="space around it"),
        pytest.param("Bearer first", False, id="a part of a key"),
        pytest.param("Bearer first-key\nsecond-key", False, id="two keys"),
        pytest.param("Bearer ", False, id="empty"),
        pytest.param("Basic first-key", False, id="another scheme"),
        pytest.param("first-key", False, id="no scheme"),
        pytest.param("Bearer k\u00e9y", False, id="other letters"),
        pytest.param(None, False, id="nothing"),
    ],
)
def test_which_headers_are_accepted(file: Path, authorization: str | None, accepted: bool) -> None:
    assert ApiKeys(str(file)).accept(authorization) is accepted


def test_keys_are_turned_over_while_serving(file: Path) -> None:
    clock = Clock()
    keys = ApiKeys(str(file), clock)
    replacement = file.with_name("new")
    replacement.write_text("third-key")
    os.replace(replacement, file)
    assert keys.accept("Bearer first-key"), "not looked at again within a second"
    clock.now_s = 1.0
    assert (keys.accept("Bearer first-key"), keys.accept("Bearer third-key")) == (False, True)


@pytest.mark.parametrize(
    ("text", "accepted"),
    [pytest.param(None, True, id="gone: as they were"), pytest.param("\n", False, id="empty: nobody")],
)
def test_a_file_without_keys_while_serving(file: Path, text: str | None, accepted: bool) -> None:
    clock = Clock()
    keys = ApiKeys(str(file), clock)
    file.unlink()
    if text is not None:
        file.write_text(text)
    clock.now_s = 1.0
    assert keys.accept("Bearer first-key") is accepted


@pytest.mark.parametrize(
    ("text", "says"),
    [pytest.param(None, "cannot be read", id="missing"), pytest.param(" \n", "holds no key", id="empty")],
)
def test_a_server_does_not_start_without_keys(tmp_path: Path, text: str | None, says: str) -> None:
    path = tmp_path / "keys"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=f"--api-key-file .*{says}"):
        ApiKeys(str(path))


@pytest.fixture
def parts_with_keys(tmp_path: Path, file: Path) -> Iterator[Parts]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        parts = Parts(tmp_path, process, api_key_file=str(file))
        yield parts
        process.kill()
        parts.close()


def test_only_probes_and_scrapers_come_without_a_key(parts_with_keys: Parts) -> None:
    async def ask() -> None:
        async with parts_with_keys.http() as client:
            for path in PATHS:
                assert (await client.get(path)).status_code in (200, 503), path
            for path in (
                "/v1/models",
                "/version",
                "/v1/chat/completions",
                "/metrics/../v1/models",
                "/nowhere",
                "//metrics",
            ):
                refused = await client.post(path, content=b"{}", headers={"authorization": "Bearer wrong"})
                check_refused(refused)
            missing = await client.get("/v1/models")
            check_refused(missing)
            assert "an API key is missing" in missing.text
            two = [("authorization", "Bearer first-key"), ("authorization", "Bearer wrong")]
            check_refused(await client.get("/version", headers=two))
            good = await client.get("/version", headers={"authorization": "Bearer first-key"})
            assert good.status_code == 200

    asyncio.run(ask())


def check_refused(answer: httpx2.Response) -> None:
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    error = answer.json()["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, "invalid_api_key")


def _accepted(models: Callable[[str], int], key: str) -> bool:
    try:
        return models(key) == 1
    except openai.AuthenticationError:
        return False


def test_openais_client_is_served_with_a_key_and_refused_without(
    tiny_chat_model: Path, file: Path, tmp_path: Path
) -> None:
    with running_server(tiny_chat_model, tmp_path, "--api-key-file", str(file)) as server:

        def models(key: str) -> int:
            with openai.OpenAI(base_url=f"{server.url}/v1", api_key=key, max_retries=0) as client:
                return len(client.models.list().data)

        assert models("second-key") == 1
        with pytest.raises(openai.AuthenticationError, match="not one of this server's"):
            models("wrong")
        assert server.get("/metrics", health=False)[0] == 200
        file.write_text("third-key")
        until(lambda: _accepted(models, "third-key"))
        with pytest.raises(openai.AuthenticationError):
            models("second-key")
