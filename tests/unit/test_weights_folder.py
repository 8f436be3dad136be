"""Where packed weights go when nobody says where."""

from pathlib import Path

import pytest

from octavo_runtime import weights_folder
from octavo_runtime.weights_folder import settled_folder


@pytest.fixture(autouse=True)
def _no_container(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests may run in one, and in a temporary folder."""
    monkeypatch.setattr(weights_folder, "_CONTAINER_FILES", ())
    monkeypatch.setattr(weights_folder, "_PASSING", ("/passing",))


@pytest.mark.parametrize("asked", ["/some/where", "none"])
def test_what_was_asked_for_is_taken(asked: str) -> None:
    assert settled_folder(asked, {}) == asked


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param({}, "{home}/.cache/octavo/weights", id="home"),
        pytest.param({"XDG_CACHE_HOME": "/elsewhere"}, "/elsewhere/octavo/weights", id="cache home"),
        pytest.param({"XDG_CACHE_HOME": "relative"}, "none", id="a relative cache home"),
        pytest.param({"XDG_CACHE_HOME": "/passing/cache"}, "none", id="a cache home that passes"),
        pytest.param({"HOME": ""}, "none", id="no home"),
        pytest.param({"HOME": "/nonexistent"}, "none", id="a home that is not there"),
        pytest.param({"HOME": "/passing"}, "none", id="a home that passes"),
        pytest.param({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "none", id="a pod"),
        pytest.param({"container": "podman"}, "none", id="a container"),
    ],
)
def test_otherwise_a_users_own_cache_or_nowhere(tmp_path: Path, variables: dict[str, str], expected: str) -> None:
    assert settled_folder(None, {"HOME": str(tmp_path)} | variables) == expected.format(home=tmp_path)
