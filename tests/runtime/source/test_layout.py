import json

import pytest

from octavo_runtime.source.layout import LayoutError, needed_files

TEXT = ["tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
INDEX = json.dumps({"weight_map": {"a": SHARDS[1], "b": SHARDS[0], "c": SHARDS[0]}})
OTHERS = ["README.md", ".gitattributes", "pytorch_model.bin", "model.pth", "onnx/model.onnx", "original/params.json"]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        pytest.param(["model.safetensors"], ["model.safetensors"], id="one file"),
        pytest.param(["model.safetensors", "consolidated.safetensors"], ["model.safetensors"], id="the same once more"),
        pytest.param(["model.safetensors.index.json", *SHARDS], ["model.safetensors.index.json", *SHARDS], id="shards"),
        pytest.param(["b.safetensors", "a.safetensors"], ["a.safetensors", "b.safetensors"], id="other names"),
        pytest.param(["model.safetensors", "q.gguf"], ["model.safetensors"], id="GGUF beside"),
    ],
)
def test_only_what_is_read_is_needed(names: list[str], expected: list[str]) -> None:
    found = needed_files([*names, *OTHERS, *TEXT, "config.json"], lambda: INDEX)
    assert sorted(found) == sorted(["config.json", *TEXT, *expected])


def test_without_safetensors_nothing_is_needed() -> None:
    assert needed_files(["config.json", "pytorch_model.bin", "m.gguf"], lambda: "") == []


@pytest.mark.parametrize(
    ("names", "index", "text"),
    [
        pytest.param(["config.json", "model.safetensors"], "", "has no tokenizer.json", id="tokenizer"),
        pytest.param(["model.safetensors.index.json", *TEXT, "config.json"], INDEX, f"has no {SHARDS[0]}", id="shard"),
        pytest.param(["model.safetensors.index.json"], "{", "cannot be read as an index", id="index is no JSON"),
        pytest.param(["model.safetensors.index.json"], "[]", "cannot be read as an index", id="index of another form"),
        pytest.param(
            ["model.safetensors.index.json"],
            '{"weight_map": {"a": "../x.safetensors"}}',
            "no file beside it",
            id="out of the folder",
        ),
    ],
)
def test_what_is_no_model_says_what_lacks(names: list[str], index: str, text: str) -> None:
    with pytest.raises(LayoutError, match=text):
        needed_files(names, lambda: index)
