from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import decoders, models

from octavo_runtime.text.detokenizer import ByteDetokenizer, Detokenizer, WindowDetokenizer, detokenizer
from octavo_runtime.text.tokenizer import Tokenizer
from tests.runtime.text.tiny import byte_tokenizer

BYTES = byte_tokenizer()


def byte_fallback_tokenizer() -> Tokenizer:
    """A SentencePiece-like vocabulary: pieces with ▁ for a space, and bytes as <0x..> for the rest."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", "▁the", "▁llama", "the", "🦙"]
    library = LibraryTokenizer(models.BPE({piece: index for index, piece in enumerate(pieces)}, [], byte_fallback=True))
    library.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1, right=0),
        ]
    )
    return Tokenizer(library)


FALLBACK = byte_fallback_tokenizer()


def pieces_of(one: Detokenizer, ids: list[int]) -> list[str]:
    return [*(one.feed(token_id) for token_id in ids), one.finish()]


@given(st.text())
def test_pieces_of_any_text_join_to_it_without_replacement_characters(text: str) -> None:
    ids = BYTES.encode(text, add_special_tokens=False)
    pieces = pieces_of(detokenizer(BYTES), ids)
    assert "".join(pieces) == text
    assert [piece for piece in pieces if "\ufffd" in piece and "\ufffd" not in text] == []


@given(st.lists(st.integers(0, 255)))
def test_pieces_of_any_bytes_join_to_the_full_decode(ids: list[int]) -> None:
    assert "".join(pieces_of(detokenizer(BYTES), ids)) == BYTES.decode(ids)


@given(st.text(st.sampled_from("the llama🦙 你好é")))
def test_other_vocabularies_join_to_the_full_decode(text: str) -> None:
    ids = [FALLBACK.id_of("▁") or 0, *FALLBACK.encode(text.replace(" ", "▁"), add_special_tokens=False)]
    pieces = pieces_of(detokenizer(FALLBACK), ids)
    assert "".join(pieces) == FALLBACK.decode(ids)
    assert [piece for piece in pieces if "\ufffd" in piece] == []


@pytest.mark.parametrize(
    ("tokenizer", "kind"),
    [pytest.param(BYTES, ByteDetokenizer, id="bytes"), pytest.param(FALLBACK, WindowDetokenizer, id="any")],
)
def test_chooses_by_the_vocabulary(tokenizer: Tokenizer, kind: type[Detokenizer]) -> None:
    assert isinstance(detokenizer(tokenizer), kind)


def byte_fallback_ids(text: str) -> list[int]:
    return [FALLBACK.id_of(f"<0x{byte:02X}>") or 0 for byte in text.encode()]


def byte_ids(text: str) -> list[int]:
    return BYTES.encode(text, add_special_tokens=False)


@pytest.mark.parametrize(
    ("tokenizer", "ids_of"),
    [pytest.param(BYTES, byte_ids, id="bytes"), pytest.param(FALLBACK, byte_fallback_ids, id="any")],
)
def test_holds_a_character_until_it_is_whole(tokenizer: Tokenizer, ids_of: Callable[[str], list[int]]) -> None:
    assert pieces_of(detokenizer(tokenizer), ids_of("🦙é")) == ["", "", "", "🦙", "", "é", ""]


def test_gives_an_unfinished_character_as_replacement_at_the_end() -> None:
    ids = byte_ids("🦙")[:2]
    assert pieces_of(detokenizer(BYTES), ids) == ["", "", "\ufffd"]


def test_special_tokens_are_left_out_unless_asked_for() -> None:
    ids = [*byte_ids("a"), BYTES.id_of("<|end|>") or 0]
    assert "".join(pieces_of(detokenizer(BYTES), ids)) == "a"
    assert "".join(pieces_of(detokenizer(BYTES, skip_special_tokens=False), ids)) == "a<|end|>"
