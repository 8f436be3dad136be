"""How the operator ends where it finds no way to an API server."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from octavo_operator import access

NO_CONTEXT = "apiVersion: v1\nkind: Config\ncontexts: []\nclusters: []\nusers: []\n"
NO_CLUSTER = "apiVersion: v1\nkind: Config\ncontexts: [{name: here, context: {cluster: x, user: y}}]\nclusters: []\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param([], "this is no pod of a cluster", id="outside of a pod"),
        pytest.param(["--kubeconfig=/nowhere", "--context=here"], "--kubeconfig /nowhere, context here", id="no file"),
    ],
)
def test_it_ends_with_one_line(arguments: list[str], says: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")}
    command = [sys.executable, "-m", "octavo_operator", "--health-port=0", "--metrics-port=0", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert says in done.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(None, "No such file", id="missing"),
        pytest.param("a: [", "while parsing", id="no YAML"),
        pytest.param("hello", "", id="no map"),
        pytest.param("", "", id="empty"),
        pytest.param(NO_CONTEXT, "here", id="another context"),
        pytest.param(NO_CLUSTER, "cluster", id="no cluster"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_says_why(content: str | None, says: str, tmp_path: Path) -> None:
    file = tmp_path / "config"
    if content is not None:
        file.write_text(content)
    with pytest.raises(access.AccessError) as caught:
        asyncio.run(access.configuration(access.Access(file, "here")))
    said = str(caught.value)
    assert len(said.splitlines()) == 1
    assert f"--kubeconfig {file}, context here, cannot be used (" in said
    assert says in said
