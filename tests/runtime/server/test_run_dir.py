from pathlib import Path

import pytest

from octavo_runtime.config import ConfigError
from octavo_runtime.server.run_dir import held_run_dir


def test_makes_the_folder_that_was_asked_for(tmp_path: Path) -> None:
    with held_run_dir(str(tmp_path / "a" / "b")) as path:
        assert path.is_dir()
        assert path == tmp_path / "a" / "b"


def test_two_servers_never_share_one(tmp_path: Path) -> None:
    taken = pytest.raises(ConfigError, match="belongs to another running server")
    with held_run_dir(str(tmp_path)), taken, held_run_dir(str(tmp_path)):
        pass
    with held_run_dir(str(tmp_path)) as path:
        assert path == tmp_path


def test_without_one_each_server_gets_its_own() -> None:
    with held_run_dir(None) as first, held_run_dir(None) as second:
        assert first != second
        assert first.is_dir()
        assert second.is_dir()
    assert not second.exists()


@pytest.mark.parametrize(
    ("folder", "text"),
    [
        pytest.param("/tmp/" + "x" * 120, "shorter folder", id="too long for a socket"),
        pytest.param("/dev/null/below", "cannot be used", id="below a file"),
    ],
)
def test_a_folder_that_cannot_be_used_is_an_error_that_says_why(folder: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text), held_run_dir(folder):
        pass
