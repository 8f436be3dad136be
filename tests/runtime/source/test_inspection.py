"""`octavo inspect`: what it tells is what the files hold, and of a hub it reads little more than headers."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo_runtime import cli
from octavo_runtime.model.config import ModelError
from octavo_runtime.source.inspection import inspect
from octavo_runtime.source.reference import SourceError, unreadable
from octavo_sizing.inspection import Inspection, StoredBytes
from octavo_sizing.model import Model
from tests.runtime.hub import Hub, Repository, running_hub
from tests.runtime.models import smollm2_path
from tests.runtime.server.tiny_model import CONFIG, save_tiny_chat_model
from tests.runtime.text.tiny import VOCAB_SIZE

TINY = Model(VOCAB_SIZE, 64, 128, 2, 8, 2, 16, 8192)
TINY_BYTES = StoredBytes(
    embedding=4 * VOCAB_SIZE * 64,
    head=4 * VOCAB_SIZE * 64,
    attention=4 * 2 * (2 * 128 * 64 + 2 * 32 * 64),
    mlp=4 * 2 * 3 * 128 * 64,
    norms=4 * 5 * 64,
)
SMOLLM2 = Model(49152, 576, 1536, 30, 9, 3, 64, 8192, tied_embeddings=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_chat_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    one = Repository.of(folder)
    weights = one.files["model.safetensors"]
    shards = {"a.safetensors": weights, "b.safetensors": weights}
    index = {"weight_map": {"x": "a.safetensors", "y": "b.safetensors"}}
    others = {name: content for name, content in one.files.items() if name != "model.safetensors"}
    repositories = {
        "org/tiny": one,
        "org/secret": Repository.of(folder, token="hf_secret"),
        "org/shards": Repository(
            one.commit, {**others, **shards, "model.safetensors.index.json": json.dumps(index).encode()}
        ),
        "org/smollm2": Repository(one.commit, {"q/smollm2.gguf": smollm2_path().read_bytes()}),
    }
    with running_hub(repositories) as hub:
        yield hub


def test_a_folder_is_told_by_its_configuration_and_headers(folder: Path) -> None:
    assert inspect(str(folder)) == Inspection(str(folder), "safetensors", "float32", TINY_BYTES, TINY)
    assert inspect(f"file://{folder}").model == TINY
    stored = (folder / "model.safetensors").stat().st_size
    assert 0 < stored - TINY_BYTES.total < 4096, "the header alone is not counted"


def test_a_gguf_file_is_told_by_its_header() -> None:
    found = inspect(str(smollm2_path()))
    assert (found.format, found.dtype, found.model) == ("gguf", "Q4_1", SMOLLM2)
    assert 0 < smollm2_path().stat().st_size - found.stored.total < 4 << 20
    assert found.stored.head == 0


def test_a_configuration_alone_has_no_weights(folder: Path) -> None:
    found = inspect(str(folder / "config.json"))
    assert (found.model, found.stored) == (TINY, StoredBytes())


@pytest.mark.parametrize(
    ("stored", "tied"), [pytest.param(True, False, id="a head is stored"), pytest.param(False, True, id="none is")]
)
def test_a_head_that_is_stored_is_used(tmp_path: Path, stored: bool, tied: bool) -> None:
    from safetensors.numpy import load_file, save_file

    save_tiny_chat_model(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "tie_word_embeddings": True}))
    if not stored:
        weights = load_file(tmp_path / "model.safetensors")
        del weights["lm_head.weight"]
        save_file(weights, tmp_path / "model.safetensors")
    assert inspect(str(tmp_path)).model.tied_embeddings is tied


def run(hub: Hub, *arguments: str, token: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HF_ENDPOINT": hub.endpoint, "HF_TOKEN": token}
    command = [sys.executable, "-m", "octavo_runtime", "inspect", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def test_a_hubs_model_is_told_by_its_revision_and_little_is_read(hub: Hub, tmp_path: Path) -> None:
    hub.asked.clear()
    log = tmp_path / "log"
    done = run(hub, "hf://org/secret@main", "--termination-log", str(log), token="hf_secret")
    assert (done.returncode, done.stderr) == (0, "")
    found = Inspection.from_json(done.stdout)
    assert found == Inspection("hf://org/secret@main", "safetensors", "float32", TINY_BYTES, TINY, "1" * 40)
    assert log.read_text() == done.stdout.strip()
    assert hub.ranges("model.safetensors") == ["bytes=0-65543"]
    assert hub.ranges("tokenizer.json") == []


def test_shards_add_up(hub: Hub) -> None:
    found = Inspection.from_json(run(hub, "hf://org/shards").stdout)
    assert found.stored.total == 2 * TINY_BYTES.total


def test_of_a_hubs_gguf_file_the_header_is_read(hub: Hub) -> None:
    hub.asked.clear()
    found = Inspection.from_json(run(hub, "hf://org/smollm2/q/smollm2.gguf").stdout)
    assert found.model == SMOLLM2
    assert found.stored == inspect(str(smollm2_path())).stored
    assert hub.ranges("q/smollm2.gguf") == ["bytes=0-1048575", "bytes=1048576-4194303"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["hf://org/none"], "has no repository org/none", id="hub"),
        pytest.param(["hf://org/tiny@v9"], "has no revision 'v9'", id="revision"),
        pytest.param(["/none/model.gguf"], "the model /none/model.gguf does not exist", id="path"),
        pytest.param(["s3://bucket"], "s3:// is not supported", id="scheme"),
        pytest.param(
            ["hf://org/tiny", "--hub-token-file", "/none"], "--hub-token-file /none cannot be read", id="token"
        ),
    ],
)
def test_a_failure_is_one_line_here_and_in_the_termination_log(
    hub: Hub, tmp_path: Path, arguments: list[str], text: str
) -> None:
    log = tmp_path / "log"
    done = run(hub, *arguments, "--termination-log", str(log))
    assert (done.returncode, done.stdout) == (1, "")
    assert text in log.read_text()
    assert done.stderr == log.read_text() + "\n"
    assert "\n" not in log.read_text()


@pytest.mark.parametrize(
    ("files", "text"),
    [
        pytest.param({}, "has no config.json", id="empty"),
        pytest.param(
            {"config.json": b"["}, r"config.json cannot be read as JSON .*: fetch it again$", id="configuration"
        ),
        pytest.param(
            {"config.json": json.dumps(CONFIG).encode()},
            "holds no .*safetensors; `octavo inspect` and `octavo fit` also take .*/config.json alone$",
            id="no weights",
        ),
        pytest.param(
            {"config.json": json.dumps(CONFIG).encode(), "model.safetensors": b"\xff" * 100},
            "cannot be read as safetensors",
            id="damaged weights",
        ),
        pytest.param(
            {
                "config.json": json.dumps({**CONFIG, "architectures": ["BertModel"]}).encode(),
                "model.safetensors": b"\x02" + b"\0" * 7 + b"{}",
            },
            "architecture BertModel is not supported",
            id="architecture",
        ),
        pytest.param(
            {
                "config.json": json.dumps({**CONFIG, "quantization_config": {"quant_method": "gptq"}}).encode(),
                "model.safetensors": b"\x02" + b"\0" * 7 + b"{}",
            },
            "quantized checkpoints .quantization_config. are not supported by this version",
            id="quantized",
        ),
    ],
)
def test_what_is_no_model_is_named(tmp_path: Path, files: dict[str, bytes], text: str) -> None:
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=text):
        inspect(str(tmp_path))


def test_no_torch_is_needed() -> None:
    code = (
        "import sys; from octavo_runtime import cli; code = cli.main(['inspect', sys.argv[1]]);"
        "print([name for name in ('torch', 'fastapi', 'zmq') if name in sys.modules]); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(smollm2_path())], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.endswith("[]\n")


def test_an_unknown_form_is_a_wrong_source() -> None:
    with pytest.raises(SourceError, match="the model /etc/passwd is neither a GGUF file nor a model folder"):
        inspect("/etc/passwd")
    assert cli.main(["inspect", "/etc/passwd"]) == 1


def test_a_file_that_cannot_be_read_says_who_should() -> None:
    error = PermissionError(13, "Permission denied", "/models/m/config.json")
    assert (
        unreadable(error)
        == f"/models/m/config.json cannot be read (Permission denied): put it right, or let user {os.geteuid()} read it"
    )
