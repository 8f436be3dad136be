"""One tokenizer for all sources: the Hugging Face `tokenizers` library plus what serving asks of it.

`gguf_tokenizer` and `folder` build the library's object; this file wraps it with the pieces that streaming needs (bytes of a
token, which ids are special) and with bounds that let a huge prompt be refused before it costs anything.
"""

import functools
from collections.abc import Sequence

from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import decoders


class Tokenizer:
    """Text to ids and back. Encoding may be called from several threads at once (the library releases the GIL)."""

    def __init__(self, library: LibraryTokenizer, bos_id: int | None = None) -> None:
        """`bos_id` is put before a plain prompt where the library's own post-processor does not do so."""
        self._library = library
        self._bos_id = bos_id
        self._bytes: dict[int, bytes] = {}
        self.vocab_size = library.get_vocab_size()
        self.byte_level = isinstance(library.decoder, decoders.ByteLevel)
        self.special_ids = frozenset(
            index for index, token in library.get_added_tokens_decoder().items() if token.special
        )

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        """The ids of `text`; special tokens written in it are recognised; `add_special_tokens` adds the model's BOS."""
        ids: list[int] = self._library.encode(text, add_special_tokens=add_special_tokens).ids
        if add_special_tokens and self._bos_id is not None:
            return [self._bos_id, *ids]
        return ids

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """The text of `ids`; ids outside the vocabulary give nothing."""
        text: str = self._library.decode(list(ids), skip_special_tokens=skip_special_tokens)
        return text

    def id_of(self, token: str) -> int | None:
        token_id: int | None = self._library.token_to_id(token)
        return token_id

    def token_of(self, token_id: int) -> str | None:
        token: str | None = self._library.id_to_token(token_id)
        return token

    @functools.cached_property
    def max_token_chars(self) -> int:
        """Characters of the longest token: a text of more than this times n characters has more than n tokens."""
        return max(len(token) for token in self._library.get_vocab())

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes a byte-level token stands for (an added token stands for its own text)."""
        known = self._bytes.get(token_id)
        if known is None:
            known = self._bytes[token_id] = self._spell(token_id)
        return known

    def _spell(self, token_id: int) -> bytes:
        token = self.token_of(token_id)
        if token is None:
            return b""
        characters = _byte_of_character()
        try:
            return bytes(characters[character] for character in token)
        except KeyError:
            return token.encode()


@functools.cache
def _byte_of_character() -> dict[str, int]:
    """The GPT-2 byte alphabet: printable Latin-1 bytes stand for themselves, the rest are moved to U+0100 and up."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    moved = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(moved)}
