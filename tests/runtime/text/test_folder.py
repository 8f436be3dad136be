import json
from pathlib import Path

import pytest

from octavo_runtime.text import model_text
from octavo_runtime.text.gguf_tokenizer import TokenizerError
from tests.runtime.text.tiny import save_byte_tokenizer


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save_byte_tokenizer(tmp_path)
    return tmp_path


def edit(path: Path, **changes: object) -> None:
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps(content | changes))


def test_reads_tokenizer_template_and_end_token(folder: Path) -> None:
    text = model_text.load(folder)
    assert text.chat_template is not None
    assert text.chat_template.render([{"role": "user", "content": "Hi"}]) == "<|user|>Hi<|end|><|assistant|>"
    assert text.eos_ids == (256,)
    assert text.tokenizer.encode("<|user|>A", add_special_tokens=False)[0] == 257
    assert text.sampling_defaults == {}


def test_a_template_file_wins_over_the_configuration(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("from the file")
    template = model_text.load(folder).chat_template
    assert template is not None
    assert template.render([]) == "from the file"


def test_takes_the_default_of_named_templates(folder: Path) -> None:
    named = [{"name": "tool_use", "template": "tools"}, {"name": "default", "template": "plain"}]
    edit(folder / "tokenizer_config.json", chat_template=named)
    template = model_text.load(folder).chat_template
    assert template is not None
    assert template.render([]) == "plain"


def test_end_tokens_come_from_all_files(folder: Path) -> None:
    edit(folder / "generation_config.json", eos_token_id=[5, 256])
    edit(folder / "config.json", eos_token_id=7)
    assert model_text.load(folder).eos_ids == (5, 7, 256)


def test_the_authors_sampling_is_the_default(folder: Path) -> None:
    edit(folder / "generation_config.json", temperature=0.6, top_k=20, do_sample=True, top_p=None)
    assert model_text.load(folder).sampling_defaults == {"temperature": 0.6, "top_k": 20.0}


def test_special_tokens_may_be_objects(folder: Path) -> None:
    edit(folder / "tokenizer_config.json", bos_token={"content": "<s>"}, chat_template="{{ bos_token }}")
    template = model_text.load(folder).chat_template
    assert template is not None
    assert template.render([]) == "<s>"


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        pytest.param("tokenizer.json", "{}", r"tokenizer.json cannot be read \(.*\): fetch it again", id="tokenizer"),
        pytest.param("tokenizer_config.json", "{", "tokenizer_config.json is not JSON", id="not JSON"),
        pytest.param("generation_config.json", "[]", "generation_config.json holds list", id="not an object"),
    ],
)
def test_a_broken_file_is_named(folder: Path, name: str, content: str, text: str) -> None:
    (folder / name).write_text(content)
    with pytest.raises(TokenizerError, match=text):
        model_text.load(folder)


def test_a_folder_without_tokenizer_and_another_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"needs tokenizer\.json"):
        model_text.load(tmp_path)
    (tmp_path / "model.bin").write_bytes(b"no model")
    with pytest.raises(TokenizerError, match="neither a GGUF file nor a folder"):
        model_text.load(tmp_path / "model.bin")
