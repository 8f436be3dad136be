"""The values that flags take and the configuration they make; `runtime/server/test_cli.py` tests how flags are read."""

import re
from pathlib import Path
from typing import Any

import pytest

from octavo_runtime import cli
from octavo_runtime.config import ConfigError, ServeConfig, environment_name, flag_name, flags
from octavo_runtime.flag_values import parse_bytes, parse_milliseconds, parse_port, parse_positive, parse_seconds


@pytest.mark.parametrize(
    ("text", "amount_bytes"),
    [
        ("0", 0),
        ("1000000", 1_000_000),
        ("4Ki", 4096),
        ("512Mi", 512 << 20),
        ("2Gi", 2 << 30),
        ("1Ti", 1 << 40),
        ("3k", 3000),
        ("3M", 3_000_000),
        ("3G", 3_000_000_000),
        ("3T", 3_000_000_000_000),
        ("2GiB", 2 << 30),
        ("2GB", 2_000_000_000),
        ("17B", 17),
        ("1.5Gi", 3 << 29),
        ("0.1k", 100),
        (" 2Gi\n", 2 << 30),
    ],
)
def test_an_amount_of_memory(text: str, amount_bytes: int) -> None:
    assert parse_bytes(text) == amount_bytes


@pytest.mark.parametrize("text", ["", "Gi", "2gi", "2 Gi", "-1", "1e9", "2KB", "1.Gi", ".5Gi", "inf", "2Gi!"])
def test_what_is_no_amount_of_memory_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=rf"'{text.strip() or text}.*such as 2Gi"):
        parse_bytes(text)


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("65535", 65535), (" 7 ", 7), ("007", 7)])
def test_whole_numbers_and_ports(text: str, number: int) -> None:
    assert parse_positive(text) == parse_port(text) == number


@pytest.mark.parametrize("text", ["", "0", "-1", "1.0", "1e3", "one", "+1", "1_000"])
def test_what_is_no_whole_number_of_at_least_1_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="not a whole number of at least 1"):
        parse_positive(text)


@pytest.mark.parametrize("text", ["", "0", "65536", "-1", "http", "80.0"])
def test_what_is_no_port_is_refused_with_the_range(text: str) -> None:
    with pytest.raises(ConfigError, match="not a port: give a whole number from 1 to 65535"):
        parse_port(text)


@pytest.mark.parametrize(("text", "seconds"), [("0", 0.0), ("60", 60.0), ("0.5", 0.5), ("1e2", 100.0)])
def test_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "-1", "nan", "inf", "60s", "1,5", "1e99"])
def test_what_is_no_number_of_seconds_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=f"'{text}' is not a number of seconds of at least 0"):
        parse_seconds(text)


def test_a_delay_that_no_client_would_wait_for_is_refused() -> None:
    assert parse_milliseconds("60000") == 60_000
    with pytest.raises(ConfigError, match="'60001' is not a number of milliseconds of at least 0 and at most 60000"):
        parse_milliseconds("60001")


@pytest.mark.parametrize(
    ("values", "text"),
    [
        pytest.param({"block_size": "17"}, "--block-size: '17' is none of auto, 16, 32, 64, 128", id="choice"),
        pytest.param({"max_num_seqs": 0}, "--max-num-seqs: '0' is not a whole number of at least 1", id="number"),
        pytest.param({"kv_cache_memory": -1}, "--kv-cache-memory: '-1' is not an amount of memory", id="bytes"),
        pytest.param(
            {"drain_timeout": float("nan")}, "--drain-timeout: 'nan' is not a number of seconds", id="seconds"
        ),
        pytest.param({"warmup_sequences": 4}, "--warmup-sequences: '4' is not a number of sequences", id="sequences"),
    ],
)
def test_python_may_give_what_the_command_line_may_and_is_told_in_the_same_words(
    values: dict[str, Any], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=f"^{re.escape(text)}"):
        ServeConfig("m", **values)
    [(name, value)] = values.items()
    flag = f"--{name.replace('_', '-')}"
    with pytest.raises(SystemExit):
        cli.main(["serve", "m", f"{flag}={value}"])
    assert f"argument {text}" in capsys.readouterr().err


def test_two_servers_on_one_port_are_refused_by_both_flags() -> None:
    with pytest.raises(ConfigError, match="--port and --health-port are both 8001: give them different ports"):
        ServeConfig("m", port=8001)


def test_a_guard_of_what_is_not_allowed_is_refused_by_both_flags() -> None:
    with pytest.raises(ConfigError, match=r"--kv-guard-percent .*: give --allow-lossy or leave it out"):
        ServeConfig("m", kv_guard_percent=5)
    assert ServeConfig("m", kv_guard_percent=5, allow_lossy=True).kv_guard_percent == 5


def test_a_step_with_fewer_tokens_than_sequences_is_refused_by_both_flags() -> None:
    with pytest.raises(ConfigError, match="--max-num-batched-tokens 63 is less than --max-num-seqs 64"):
        ServeConfig("m", max_num_batched_tokens=63, max_num_seqs=64)
    assert ServeConfig("m", max_num_batched_tokens=64, max_num_seqs=64).max_num_seqs == 64
    assert ServeConfig("m", max_num_batched_tokens=8).max_num_seqs is None  # the automatic number keeps below it


@pytest.mark.parametrize(
    ("model", "text"),
    [
        pytest.param("", "the model is empty", id="empty"),
        pytest.param("s3://x/y", "s3:// is not supported", id="other scheme"),
        pytest.param("https://host/x", "https:// is not supported", id="web"),
        pytest.param("file://host/x", "names the host 'host'", id="another host"),
        pytest.param("file://", "has no path", id="no path"),
    ],
)
def test_a_model_of_another_form_is_refused_with_the_forms_that_are_taken(model: str, text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        ServeConfig(model)
    assert "give a GGUF file or a model folder as a path or file:///path, or hf://org/repo" in str(caught.value)


def test_a_hubs_model_is_named_by_its_repository_and_lies_where_it_was_fetched() -> None:
    config = ServeConfig("hf://org/name@v1")
    assert config.model_name == "name"
    with pytest.raises(ConfigError, match="hf://org/name@v1 is not on this machine"):
        assert config.model_path
    assert ServeConfig("hf://org/name", fetched="/cache/x").model_path == Path("/cache/x")


@pytest.mark.parametrize("name", ["", " "])
def test_an_empty_name_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="--served-model-name is empty: give a name or leave it out"):
        ServeConfig("m", served_model_name=name)


def test_a_context_holds_at_least_a_prompt_and_an_answer() -> None:
    with pytest.raises(ConfigError, match=r"--max-model-len 1 is too short .*: give at least 2"):
        ServeConfig("m", max_model_len=1)
    assert ServeConfig("m", max_model_len=2).max_model_len == 2


@pytest.mark.parametrize(
    ("model", "served_model_name", "path", "name"),
    [
        pytest.param("/models/smollm2.gguf", None, "/models/smollm2.gguf", "smollm2", id="file"),
        pytest.param("models/llama", None, "models/llama", "llama", id="folder"),
        pytest.param("models/llama/", None, "models/llama", "llama", id="folder with a slash"),
        pytest.param("file:///models/smollm2.gguf", None, "/models/smollm2.gguf", "smollm2", id="file URL"),
        pytest.param("file:///my%20models/a.gguf", None, "/my models/a.gguf", "a", id="escaped file URL"),
        pytest.param("/models/a.gguf", "chat", "/models/a.gguf", "chat", id="name given"),
        pytest.param(".", None, ".", ".", id="the folder itself"),
    ],
)
def test_where_the_model_lies_and_what_clients_call_it(
    model: str, served_model_name: str | None, path: str, name: str
) -> None:
    config = ServeConfig(model, served_model_name=served_model_name)
    assert config.model_path == Path(path)
    assert config.model_name == name


def test_every_field_but_the_model_and_where_it_lies_is_a_flag_with_a_text() -> None:
    assert {field.name for field in flags()} == set(vars(ServeConfig("m"))) - {"model", "fetched", "revision"}
    assert all(len(field.metadata["help"]) > 10 for field in flags())


def test_names_of_a_flag() -> None:
    (field,) = (field for field in flags() if field.name == "max_num_seqs")
    assert (flag_name(field), environment_name(field)) == ("--max-num-seqs", "OCTAVO_MAX_NUM_SEQS")


def test_defaults_are_values_that_their_own_flags_would_take() -> None:
    for field in flags():
        choices = field.metadata["choices"]
        if choices:
            assert field.default in choices, field.name
        elif field.default is not None:
            text = str(field.default).lower() if isinstance(field.default, bool) else str(field.default)
            assert field.metadata["parse"](text) == field.default, field.name
