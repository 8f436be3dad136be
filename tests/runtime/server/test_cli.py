import subprocess
import sys
from pathlib import Path

import pytest

from octavo_runtime import cli
from octavo_runtime.config import ConfigError, ServeConfig, environment_name, flag_name, flags


def config(arguments: list[str], environment: dict[str, str] | None = None) -> ServeConfig:
    return cli.serve_config(cli.parser().parse_args(["serve", "m.gguf", *arguments]), environment or {})


def test_without_flags_the_tables_defaults_hold() -> None:
    assert config([]) == ServeConfig(model="m.gguf")


def test_every_flag_is_an_environment_variable_and_the_flag_wins() -> None:
    environment = {
        "OCTAVO_MAX_NUM_SEQS": "8",
        "OCTAVO_KV_CACHE_MEMORY": "2Gi",
        "PATH": "/bin",
        "OCTAVO_CONTEXT": "kind",
    }
    settled = config(["--max-num-seqs", "16", "--served-model-name", "llama"], environment)
    assert (settled.max_num_seqs, settled.kv_cache_memory, settled.served_model_name) == (16, 2 << 30, "llama")


def test_help_tells_every_flag_with_its_text(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    with pytest.raises(SystemExit) as caught:
        cli.main(["serve", "--help"])
    text = capsys.readouterr().out
    assert caught.value.code == 0
    assert [flag_name(field) for field in flags() if flag_name(field) not in text] == []
    assert [field.name for field in flags() if field.metadata["help"] not in text] == []


def test_lossy_steps_are_told_as_what_they_are() -> None:
    [text] = [field.metadata["help"] for field in flags() if field.name == "allow_lossy"]
    assert "in 8 bits" in text
    assert "eviction" not in text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["serve", "m", "--port", "99999"], "octavo serve: argument --port: '99999' is not", id="port"),
        pytest.param(["serve", "m", "--max-num-seqs", "0"], "--max-num-seqs: '0' is not a whole number", id="value"),
        pytest.param(["serve", "m", "--dtype", "int3"], "--dtype", id="choice"),
        pytest.param(["serve"], "octavo serve: the following arguments are required: model;", id="no model"),
        pytest.param(["fit", "--foo=1"], "octavo fit: --foo is unknown; the following arguments are", id="both"),
        pytest.param(["fit", "--tensor=2"], "octavo fit: the following arguments are", id="no model, a known flag"),
        pytest.param(["--foo", "srve", "--bar"], "octavo: --foo is unknown; argument", id="before the command"),
        pytest.param(["srve", "--bar"], "octavo: argument", id="an unknown command's flag"),
        pytest.param(["drain", "--settle", "-1"], "--settle", id="drain"),
        pytest.param([], "serve|drain", id="no command"),
    ],
)
def test_a_wrong_call_is_told_by_its_flag(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    told = capsys.readouterr().err
    assert (caught.value.code, told.count("\n")) == (2, 1)
    assert text in told


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["serve", "m", "--max-nm-seqs", "3"], "octavo serve: --max-nm-seqs is unknown", id="serve"),
        pytest.param(["serve", "m", "--max-num", "3"], "octavo serve: --max-num is unknown", id="abbreviation"),
        pytest.param(["fit", "m", "--foo"], "--foo is unknown: `octavo fit --help` lists what there is\n", id="fit"),
    ],
)
def test_an_unknown_flag_is_told_with_where_the_known_ones_are(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        pytest.param({"OCTAVO_MAX_NM_SEQS": "3"}, "OCTAVO_MAX_NM_SEQS is unknown", id="unknown"),
        pytest.param(
            {"OCTAVO_PORT": "tcp://10.0.0.1:80"}, "OCTAVO_PORT: 'tcp://10.0.0.1:80' is not a port", id="value"
        ),
        pytest.param({"OCTAVO_DTYPE": "int3"}, "OCTAVO_DTYPE: 'int3' is none of auto", id="choice"),
    ],
)
def test_a_wrong_environment_variable_is_named(environment: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        config([], environment)


@pytest.mark.parametrize(
    ("flags", "text"),
    [
        pytest.param(["--port=9000", "--health-port=9000"], "--port and --health-port are both 9000", id="one port"),
        pytest.param(
            ["--allow-lossy", "--no-memory-ladder"], "--no-memory-ladder turns it off", id="steps of no ladder"
        ),
    ],
)
def test_contradicting_flags_are_an_error_with_exit_code_2(
    flags: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["serve", "m", *flags]) == 2
    assert text in capsys.readouterr().err


def test_a_missing_model_is_an_error_with_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve", str(tmp_path / "none.gguf")]) == 2
    assert (
        "none.gguf does not exist: give a GGUF file or a model folder as a path or file:///path, or hf://org/repo"
        in capsys.readouterr().err
    )


def test_names_of_environment_variables_are_unique() -> None:
    names = [environment_name(field) for field in flags()]
    assert len(names) == len(set(names))


def test_drain_needs_no_server_libraries(tmp_path: Path) -> None:
    code = (
        "import sys; from octavo_runtime import cli; code = cli.main(sys.argv[1:]);"
        "print([name for name in ('fastapi', 'zmq', 'torch', 'pydantic') if name in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "drain", "--run-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "[]\n")
    assert "no server answers" in done.stderr


@pytest.mark.parametrize(
    ("flags", "environment", "folder"),
    [
        pytest.param([], {}, "/run/octavo", id="default"),
        pytest.param([], {"OCTAVO_RUN_DIR": "/a"}, "/a", id="variable"),
        pytest.param(["--run-dir", "/b"], {"OCTAVO_RUN_DIR": "/a"}, "/b", id="flag wins"),
    ],
)
def test_where_drain_looks_for_the_server(flags: list[str], environment: dict[str, str], folder: str) -> None:
    assert cli.drain_run_dir(cli.parser().parse_args(["drain", *flags]), environment) == folder


def test_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "octavo_runtime", "--version"], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.startswith("octavo ")
