"""The tokenizer, chat template and end tokens that a GGUF file carries.

Byte-level BPE (`tokenizer.ggml.model` gpt2) with the pre-tokenizers of the families that the engine has layers for; what
`tokenizer.ggml.pre` names is how the model was trained, so an unknown name is an error rather than a guess.
"""

import dataclasses

from tokenizers import AddedToken, Regex, decoders, models, pre_tokenizers
from tokenizers import Tokenizer as LibraryTokenizer

from octavo_runtime.gguf_file import GgufHeader
from octavo_runtime.text.tokenizer import Tokenizer

_CONTROL, _USER_DEFINED = 3, 4
_LLAMA3_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_QWEN2_SPLIT = _LLAMA3_SPLIT.replace(r"\p{N}{1,3}", r"\p{N}")


class TokenizerError(ValueError):
    """The model's tokenizer cannot be built; the text names the field and its value."""


@dataclasses.dataclass(frozen=True)
class GgufText:
    tokenizer: Tokenizer
    chat_template: str | None
    bos_token: str
    eos_token: str
    eos_ids: tuple[int, ...]


def build(header: GgufHeader) -> GgufText:
    """Everything about text from the header's metadata. Raises TokenizerError and GgufError."""
    kind = header.text("tokenizer.ggml.model")
    if kind != "gpt2":
        raise TokenizerError(
            f"tokenizer.ggml.model is '{kind}': this version reads byte-level BPE (gpt2) from GGUF files; "
            "give the model as a folder with tokenizer.json instead"
        )
    tokens = header.strings("tokenizer.ggml.tokens")
    bos, eos = _optional_id(header, "bos"), _optional_id(header, "eos")
    ends = (eos, _optional_id(header, "eot"), _optional_id(header, "eom"))
    return GgufText(
        tokenizer=Tokenizer(_library(header, tokens), bos_id=bos if _adds_bos(header) else None),
        chat_template=header.text("tokenizer.chat_template") if "tokenizer.chat_template" in header.metadata else None,
        bos_token=tokens[bos] if bos is not None else "",
        eos_token=tokens[eos] if eos is not None else "",
        eos_ids=tuple(sorted({end for end in ends if end is not None})),
    )


def _library(header: GgufHeader, tokens: list[str]) -> LibraryTokenizer:
    merges = [_pair(merge) for merge in header.strings("tokenizer.ggml.merges")]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    library = LibraryTokenizer(models.BPE(vocab=vocabulary, merges=merges))
    library.pre_tokenizer = _pre_tokenizer(header.text("tokenizer.ggml.pre"))
    library.decoder = decoders.ByteLevel()
    kinds = header.strings("tokenizer.ggml.token_type")
    for kind, special in ((_CONTROL, True), (_USER_DEFINED, False)):
        added = [
            AddedToken(token, normalized=False, special=special)
            for token, of_kind in zip(tokens, kinds, strict=True)
            if of_kind == str(kind)
        ]
        library.add_special_tokens(added) if special else library.add_tokens(added)
    return library


def _pair(merge: str) -> tuple[str, str]:
    left, _, right = merge.partition(" ")
    return left, right


def _pre_tokenizer(name: str) -> pre_tokenizers.PreTokenizer:
    if name == "smollm":  # each digit alone, then GPT-2's pattern
        return pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    if name in ("gpt-2", "default"):
        return pre_tokenizers.ByteLevel(add_prefix_space=False)
    split = {"llama-bpe": _LLAMA3_SPLIT, "qwen2": _QWEN2_SPLIT}.get(name)
    if split is None:
        raise TokenizerError(
            f"tokenizer.ggml.pre is '{name}': this version knows smollm, gpt-2, default, llama-bpe and qwen2; "
            "give the model as a folder with tokenizer.json instead"
        )
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(split), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def _optional_id(header: GgufHeader, name: str) -> int | None:
    key = f"tokenizer.ggml.{name}_token_id"
    return header.integer(key) if key in header.metadata else None


def _adds_bos(header: GgufHeader) -> bool:
    """Llama 3 files without the key mean yes, as llama.cpp reads them."""
    default = header.metadata.get("tokenizer.ggml.pre") == "llama-bpe"
    return bool(header.metadata.get("tokenizer.ggml.add_bos_token", default))
