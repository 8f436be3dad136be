import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.runtime.server.parts import Parts
from tests.runtime.server.running import RunningServer, running_server
from tests.runtime.server.tiny_model import save_tiny_chat_model


@pytest.fixture(scope="session")
def tiny_chat_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_chat_model(tmp_path_factory.mktemp("tiny-chat"))


@pytest.fixture(scope="module")
def server(tiny_chat_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with running_server(tiny_chat_model, tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def client(server: RunningServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[Parts]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        parts = Parts(tmp_path, process, tenant_header="X-Tenant")
        yield parts
        process.kill()
        parts.close()
