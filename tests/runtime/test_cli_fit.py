"""`octavo fit` on models and bare configurations: what it prints, and its exit code."""

import json
import re
from pathlib import Path

import pytest

from octavo_runtime.cli import main
from tests.runtime.models import smollm2_path

LLAMA_8B = {
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-5,
    "rope_theta": 500000.0,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def llama(tmp_path: Path) -> str:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA_8B))
    return str(path)


def test_tells_what_a_gpu_holds(llama: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", llama, "--gpu-memory", "80Gi"]) == 0
    text = capsys.readouterr().out
    assert f"{llama}: 8.03 billion parameters, 32 layers, 32 heads, 8 KV heads of 128; computed in bfloat16" in text
    assert "of each GPU at tensor degree 1, in 90 % of 80 GiB:" in text
    assert "28,611 blocks of 16 tokens, 128 KiB a token" in text
    assert text.endswith("\n\nfits, with contexts of 131,072 tokens\n")


def test_a_model_that_does_not_fit_ends_with_1_and_what_would(llama: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", llama, "--gpu-memory=16Gi", "--max-model-len=8192"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].startswith("does not fit: at tensor degree 1 each GPU needs")
    assert lines[-1].endswith("set --tensor to 2 (the smallest that fits) or more")
    rows = [line.split() for line in lines if line.endswith((" yes", " no"))]
    assert [(row[0], row[-1]) for row in rows] == [
        ("1", "no"),
        *((degree, "yes") for degree in ("2", "4", "8", "16", "32")),
    ]


def test_json_has_the_fields_of_the_status(llama: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", llama, "--gpu-memory", "80Gi", "--tensor", "4", "--kv-cache-dtype=fp8", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is True
    assert found["sizing"]["kvBytesPerToken"] == (65 << 10) // 4
    assert found["inspection"]["model"]["kvHeads"] == 8
    assert [one["tensor"] for one in found["degrees"]] == [1, 2, 4, 8, 16, 32]
    assert found["degrees"][2] == {"tensor": 4, "fits": True, **found["sizing"]}


def test_reads_gguf_and_sizes_cpus(capsys: pytest.CaptureFixture[str]) -> None:
    model = str(smollm2_path())
    assert main(["fit", model, "--device", "cpu"]) == 0
    assert "134.5 million parameters" in capsys.readouterr().out
    assert main(["fit", model, "--device", "cpu", "--memory", "500Mi"]) == 1
    assert "set --memory to at least" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        pytest.param("--tensor=3", "does not fit: --tensor 3: .* give one of 1, 2, 4, 8, 16, 32$", id="heads"),
        pytest.param("--nodes=2", "does not fit: --tensor 1 is not shared evenly by 2 nodes", id="nodes"),
        pytest.param(
            "--max-model-len=200000",
            "does not fit: --max-model-len 200,000 is more than the model's 131,072 positions: lower it to 131,072$",
            id="context",
        ),
        pytest.param(
            "--kv-cache-dtype-v=fp8",
            "does not fit: unquantized keys and fp8 values are not for GPUs.* leave --kv-cache-dtype-v out",
            id="values unlike keys",
        ),
    ],
)
def test_what_no_memory_helps_ends_with_1(
    argument: str, says: str, llama: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", llama, "--gpu-memory=80Gi", argument]) == 1
    assert re.search(says, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "code", "expected"),
    [
        pytest.param(
            ["--gpu-memory=80Gi", "--tensor=3"], 1, {"fits": False, "possibleDegrees": [1, 2, 4, 8, 16, 32]}, id="heads"
        ),
        pytest.param(["--gpu-memory=80Gi", "--max-model-len=200000"], 1, {"fits": False}, id="context"),
        pytest.param([], 2, {"fits": None}, id="no memory"),
        pytest.param(["--gpu-memory=much"], 2, {"fits": None}, id="no amount"),
    ],
)
def test_json_has_refusals_too(
    arguments: list[str], code: int, expected: dict[str, object], llama: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", llama, *arguments]) == code
    text = capsys.readouterr().err.removeprefix("octavo fit: ").removesuffix("\n")
    assert main(["fit", llama, "--json", *arguments]) == code
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {**expected, "verdict": text}
    assert not printed.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param([], "--gpu-memory is not given", id="no memory"),
        pytest.param(["--gpu-memory=80Gi", "--memory=1Gi"], "leave one out", id="memory of both"),
        pytest.param(["--gpu-memory=much"], "--gpu-memory: 'much' is not an amount of memory", id="no amount"),
        pytest.param(
            ["--gpu-memory=80Gi", "--tensor=two"], "--tensor: 'two' is not a whole number of at least 1", id="no number"
        ),
        pytest.param(["--gpu-memory=80Gi", "--tensor=0"], "--tensor: '0' is not a whole", id="no rank"),
        pytest.param(["--gpu-memory=80"], "--gpu-memory: '80' is less than 1 MiB: a number without", id="no unit"),
        pytest.param(["--gpu-memory=0"], "--gpu-memory: '0' is less than 1 MiB", id="no memory at all"),
        pytest.param(["--device=cpu", "--memory=0"], "--memory: '0' is less than 1 MiB", id="no memory of a CPU"),
        pytest.param(["--gpu-memory=80Gi", "--max-model-len=long"], "--max-model-len: 'long'", id="no length"),
    ],
)
def test_what_cannot_be_told_ends_with_2(
    arguments: list[str], says: str, llama: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fit", llama, *arguments]) == 2
    assert says in capsys.readouterr().err


def test_a_configuration_may_have_any_name_in_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "llama-8b.json"
    path.write_text(json.dumps(LLAMA_8B))
    assert main(["fit", str(path), "--gpu-memory=80Gi"]) == 0
    path.write_text("{}")
    assert main(["fit", str(path), "--gpu-memory=80Gi"]) == 2
    assert f"octavo fit: {path}: architecture (none) is not supported" in capsys.readouterr().err


def test_help_says_what_is_so_here(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fit", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "number of nodes that share the ranks (default: 1)" in text
    assert "on CPUs half of that, at most 2Gi)" in text
    assert not re.search("LWS_|AVX2|cgroup|half of it while", text)


def test_a_model_that_is_not_there_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fit", "/models/none.gguf", "--gpu-memory=80Gi"]) == 2
    assert "octavo fit: the model /models/none.gguf does not exist" in capsys.readouterr().err
