"""GGUF files: the same tensors as the safetensors form, and how a damaged or foreign file is refused."""

import struct
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from octavo_runtime.gguf_file import read_header
from octavo_runtime.model.config import ModelConfig, ModelError, from_hugging_face
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.gguf_weights import GgufCheckpoint
from octavo_runtime.model.weights import WeightReader, open_checkpoint
from octavo_runtime.source.inspection import inspect
from tests.runtime.model.batches import Chunk, run_steps
from tests.runtime.model.gguf_model import Metadata, write_gguf
from tests.runtime.models import save_tiny_model

ARCHITECTURES = {
    "llama": {},
    "llama tied": {"tie_word_embeddings": True, "num_key_value_heads": 4},
    "qwen2": {},
    "qwen3": {},
}


@pytest.fixture(scope="module", params=ARCHITECTURES)
def any_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name = str(request.param)
    return save_tiny_model(tmp_path_factory.mktemp("any"), name.split()[0], **ARCHITECTURES[name])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("llama"))


def load(path: Path) -> Decoder:
    checkpoint = open_checkpoint(path)
    weights = WeightReader(checkpoint, torch.float32, lambda percent: None)
    return Decoder(checkpoint.config, weights, 16, torch.device("cpu"))


# Half a unit of fp16's 11 bits (and of its smallest number) and of bf16's 8; Q8_0 rounds to 127 steps, with the step in fp16.
Q8_0_ERROR = 0.5 / 127 + 2**-11


@pytest.mark.parametrize(
    ("kind", "relative", "of_largest"),
    [("F32", 0.0, 0.0), ("F16", 2**-11, 1e-7), ("BF16", 2**-8, 0.0), ("Q8_0", 0.0, Q8_0_ERROR)],
    ids=["F32", "F16", "BF16", "Q8_0"],
)
def test_tensors_equal_those_of_safetensors(
    any_folder: Path, tmp_path: Path, kind: str, relative: float, of_largest: float
) -> None:
    stored = load_file(any_folder / "model.safetensors")
    checkpoint = GgufCheckpoint(write_gguf(tmp_path / "model.gguf", any_folder, kind))
    assert checkpoint.names() == set(stored)
    for name, tensor in stored.items():
        exact = tensor.ndim == 1  # vectors are kept in fp32
        largest = float(tensor.abs().max())
        torch.testing.assert_close(
            checkpoint.read(name, torch.float32),
            tensor,
            rtol=0 if exact else relative,
            atol=0 if exact else of_largest * largest,
            msg=f"{name} differs",
        )


def test_configuration_equals_that_of_safetensors(any_folder: Path, tmp_path: Path) -> None:
    checkpoint = open_checkpoint(write_gguf(tmp_path / "model.gguf", any_folder))
    expected = from_hugging_face(any_folder)
    assert isinstance(checkpoint.config, ModelConfig)
    assert checkpoint.config.norm_eps == pytest.approx(expected.norm_eps, rel=1e-7)  # fp32 in the file
    assert checkpoint.config == ModelConfig(**{**vars(expected), "norm_eps": checkpoint.config.norm_eps})


def test_logits_equal_those_of_safetensors(any_folder: Path, tmp_path: Path) -> None:
    tokens, steps = [[3, 141, 59, 26, 53]], [[Chunk(0, 0, 5)]]
    (ours,) = run_steps(load(write_gguf(tmp_path / "model.gguf", any_folder)), tokens, steps)
    (expected,) = run_steps(load(any_folder), tokens, steps)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-6 * float(expected.abs().max()))


def test_tensors_are_new_and_writable(folder: Path, tmp_path: Path) -> None:
    checkpoint = GgufCheckpoint(write_gguf(tmp_path / "model.gguf", folder))
    checkpoint.read("model.norm.weight", torch.float32).zero_()
    assert checkpoint.read("model.norm.weight", torch.float32).all()


@pytest.mark.parametrize(
    ("metadata", "named"),
    [
        pytest.param({"general.architecture": "gpt2"}, ("'gpt2'", "llama, qwen2, qwen3"), id="other architecture"),
        pytest.param({"llama.rope.scaling.type": "yarn"}, ("llama.rope.scaling.type", "safetensors"), id="scaled rope"),
        pytest.param({"llama.block_count": 0}, ("llama.block_count = 0", "fetch it again"), id="no layers"),
        pytest.param({"llama.context_length": "long"}, ("llama.context_length", "'long'"), id="text for a number"),
        pytest.param({"llama.block_count": 1}, ("does not use", "blk.1.attn_k.weight"), id="fewer layers than tensors"),
        pytest.param({"llama.block_count": 3}, ("holds no tensor", "model.layers.2."), id="more layers than tensors"),
        pytest.param({"llama.feed_forward_length": 64}, ("mlp.gate_proj.weight", "(128, 64)"), id="other sizes"),
    ],
)
def test_refuses_and_names_the_file_and_the_entry(
    folder: Path, tmp_path: Path, metadata: Metadata, named: tuple[str, ...]
) -> None:
    file = write_gguf(tmp_path / "model.gguf", folder, metadata=metadata)
    with pytest.raises(ModelError) as refusal:
        load(file)
    for word in (str(file), *named):
        assert word in str(refusal.value)


def test_missing_metadata_is_named(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "model.gguf", "llama")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelError, match=r"model\.gguf: .*no metadata 'llama\.attention\.head_count'"):
        open_checkpoint(tmp_path / "model.gguf")


def test_entries_that_the_format_leaves_out_have_its_defaults(tmp_path: Path) -> None:
    folder = save_tiny_model(tmp_path / "all", num_key_value_heads=8, head_dim=8)
    file = write_gguf(tmp_path / "model.gguf", folder)
    for key in ("attention.head_count_kv", "attention.key_length", "rope.freq_base"):
        rename(file, f"llama.{key}".encode())
    config = open_checkpoint(file).config
    assert (config.kv_heads, config.head_dim, config.rope_theta) == (8, 8, 10000.0)


def test_a_file_without_weights_is_refused_before_anything_is_reckoned_from_it(folder: Path, tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "model.gguf", folder)
    rename(file, b"token_embd.weight")
    for read in (open_checkpoint, lambda path: inspect(str(path))):
        with pytest.raises(ModelError, match=r"no tensor 'token_embd\.weight': .* give a whole GGUF file"):
            read(file)


def rename(file: Path, key: bytes) -> None:
    """Make the header's entry `key` one that nobody reads."""
    data = file.read_bytes()
    assert data.count(struct.pack("<Q", len(key)) + key) == 1
    file.write_bytes(data.replace(key, key[:-1] + b"~"))


def test_a_cut_header_says_to_fetch_the_file_again(folder: Path, tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "model.gguf", folder)
    file.write_bytes(file.read_bytes()[:200])
    with pytest.raises(ModelError, match=r"model\.gguf is cut short .*fetch the file again"):
        load(file)


def test_cut_tensors_say_which_one_and_to_fetch_the_file_again(folder: Path, tmp_path: Path) -> None:
    file = write_gguf(tmp_path / "model.gguf", folder)
    offsets = {name: info.offset for name, info in read_header(file).tensors.items()}
    last = max(offsets, key=offsets.__getitem__)
    file.write_bytes(file.read_bytes()[: offsets[last] + 1])
    with pytest.raises(ModelError, match=rf"model\.gguf ends at byte .*'{last}'.*cut short, fetch it again"):
        load(file)


@pytest.mark.parametrize(
    ("ggml_type", "text"),
    [
        pytest.param(999, "'output_norm.weight' has the unknown type 999", id="unknown"),
        pytest.param(
            int(gguf.GGMLQuantizationType.I16), "'output_norm.weight' is I16, which cannot be decoded", id="integers"
        ),
    ],
)
def test_types_that_cannot_be_decoded_are_named(folder: Path, tmp_path: Path, ggml_type: int, text: str) -> None:
    file = write_gguf(tmp_path / "model.gguf", folder)
    data = file.read_bytes()
    entry = b"output_norm.weight" + struct.pack("<IQ", 1, 64)
    assert data.count(entry + struct.pack("<I", 0)) == 1
    file.write_bytes(data.replace(entry + struct.pack("<I", 0), entry + struct.pack("<I", ggml_type)))
    with pytest.raises(ModelError, match=text):
        load(file)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        pytest.param((2**32, 2**32), "cut short", id="larger than memory"),
        pytest.param((2**62, 2**62), "cut short", id="beyond 63 bits"),
        pytest.param((2**64 - 1, 2**64 - 1), "cut short", id="largest"),
        pytest.param((0, 256), r"shape \(256, 0\), which F32 cannot have", id="empty"),
    ],
)
def test_an_absurd_shape_is_an_error_not_an_allocation(
    folder: Path, tmp_path: Path, shape: tuple[int, int], text: str
) -> None:
    file = write_gguf(tmp_path / "model.gguf", folder)
    data = file.read_bytes()
    entry = struct.pack("<Q", 13) + b"output.weight" + struct.pack("<I", 2)
    assert data.count(entry) == 1
    at = data.index(entry) + len(entry)
    file.write_bytes(data[:at] + struct.pack("<QQ", *shape) + data[at + 16 :])
    with pytest.raises(ModelError, match=text):
        GgufCheckpoint(file).read("lm_head.weight", torch.float32)


def test_q_and_k_are_read_as_halves(folder: Path, tmp_path: Path) -> None:
    """The reordering, said once more in plain words: row 1 of a stored head is row D/2 of ours."""
    file = write_gguf(tmp_path / "model.gguf", folder)
    info = read_header(file).tensors["blk.0.attn_k.weight"]
    stored = np.frombuffer(file.read_bytes(), np.float32, count=32 * 64, offset=info.offset).reshape(32, 64)
    ours = open_checkpoint(file).read("model.layers.0.self_attn.k_proj.weight", torch.float32).numpy()
    np.testing.assert_array_equal(ours[[0, 8, 1, 9]], stored[[0, 1, 2, 3]])
    np.testing.assert_array_equal(ours[[16, 24, 17, 25]], stored[[16, 17, 18, 19]])
