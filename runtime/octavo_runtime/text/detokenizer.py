"""Token ids to text, piece by piece, so that the pieces joined are exactly the text of all ids.

A character may lie across tokens (emoji, CJK): what is not yet a whole character is held until it is, or until `finish`, where it
becomes U+FFFD as in a plain decode. Byte-level vocabularies go through an incremental UTF-8 decoder; others decode a short window.
"""

import codecs
from collections.abc import Callable
from typing import Protocol

from octavo_runtime.text.tokenizer import Tokenizer


class Detokenizer(Protocol):
    """One sequence's text."""

    def feed(self, token_id: int) -> str:
        """The text that `token_id` completes; may be empty."""
        ...

    def finish(self) -> str:
        """What was held back."""
        ...


def detokenizer(tokenizer: Tokenizer, skip_special_tokens: bool = True) -> Detokenizer:
    skipped = tokenizer.special_ids if skip_special_tokens else frozenset()
    if tokenizer.byte_level:
        return ByteDetokenizer(tokenizer.token_bytes, skipped)
    return WindowDetokenizer(lambda ids: tokenizer.decode(ids, skip_special_tokens))


class ByteDetokenizer:
    """For byte-level vocabularies: each id is a run of bytes, independent of its neighbours."""

    def __init__(self, token_bytes: Callable[[int], bytes], skipped: frozenset[int]) -> None:
        self._token_bytes = token_bytes
        self._skipped = skipped
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, token_id: int) -> str:
        if token_id in self._skipped:
            return ""
        return self._decoder.decode(self._token_bytes(token_id))

    def finish(self) -> str:
        return self._decoder.decode(b"", final=True)


class WindowDetokenizer:
    """For any vocabulary: decodes from the last settled id on and gives what is new.

    The settled id before the window keeps decoders that treat the first token differently (leading space) from doing so in the
    middle of a text.
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._settled = 0  # ids of the window whose text was given

    def feed(self, token_id: int) -> str:
        self._window.append(token_id)
        text = self._new_text()
        if not text or text.endswith("\ufffd"):
            return ""
        self._window = self._window[self._settled :]
        self._settled = len(self._window)
        return text

    def finish(self) -> str:
        return self._new_text()

    def _new_text(self) -> str:
        before = self._decode(self._window[: self._settled])
        return self._decode(self._window)[len(before) :]
