"""Which part of a model's tensors each of several ranks holds: one rule, by the tensor's name.

Products that widen (q, k, v, gate, up) are cut by rows, so each rank has whole attention heads and its columns of the MLP; products
that narrow (attention's out, the MLP's down) by columns, so that a sum over the ranks makes them whole. The embedding and the head
are cut by rows of the vocabulary. KV heads are split where there are at least as many as ranks; else each is held by the ranks
whose query heads use it. Norms are on every rank. How much that is, and which degrees can be: `octavo_sizing.sharding`.
"""

import dataclasses
import re
from collections.abc import Sequence
from pathlib import Path

from octavo_runtime.model.config import ModelConfig, ModelError
from octavo_sizing.sharding import local_kv_heads, vocabulary_rows

_VOCABULARY = ("model.embed_tokens.weight", "lm_head.weight")
_CUT = re.compile(r"model\.layers\.\d+\.(?:self_attn|mlp)\.(q|k|v|o|gate|up|down)_proj\.(?:weight|bias)")


@dataclasses.dataclass(frozen=True)
class Shard:
    """Rank `rank` of `size`."""

    rank: int
    size: int


@dataclasses.dataclass(frozen=True)
class Cut:
    """`begin … end − 1` along an axis (0: rows, 1: columns) on which the whole tensor has `whole`."""

    axis: int
    begin: int
    end: int
    whole: int


def check_whole(path: Path, name: str, shape: Sequence[int], part: Cut) -> None:
    """Raises ModelError where the stored tensor is not what `part` is a part of."""
    if len(shape) <= part.axis or shape[part.axis] != part.whole:
        raise ModelError(
            f"{path}: tensor '{name}' has shape {tuple(shape)}, the configuration asks for {part.whole} along axis {part.axis}"
        )


def local_config(model: ModelConfig, shard: Shard) -> ModelConfig:
    """The sizes of one rank's layers; the vocabulary's stays the model's."""
    return dataclasses.replace(
        model,
        heads=model.heads // shard.size,
        kv_heads=local_kv_heads(model, shard.size),
        intermediate_size=model.intermediate_size // shard.size,
    )


def vocabulary(tokens: int, shard: Shard) -> range:
    """The token ids whose rows of the embedding and the head a rank holds."""
    share = vocabulary_rows(tokens, shard.size)
    return range(min(tokens, shard.rank * share), min(tokens, (shard.rank + 1) * share))


def cut(model: ModelConfig, shard: Shard, name: str) -> Cut | None:
    """What of the tensor `name` of the whole `model` a rank holds; None: all of it."""
    if name in _VOCABULARY:
        rows = vocabulary(model.vocab_size, shard)
        return Cut(0, rows.start, rows.stop, model.vocab_size)
    match = _CUT.fullmatch(name)
    if match is None:
        return None
    match match[1]:
        case "k" | "v":
            begin, count = shard.rank * model.kv_heads // shard.size, local_kv_heads(model, shard.size)
            width = model.head_dim
            return Cut(0, begin * width, (begin + count) * width, model.kv_heads * width)
        case "q":
            return _even(0, model.heads * model.head_dim, shard)
        case "o":
            return _even(1, model.heads * model.head_dim, shard)
        case "down":
            return _even(1, model.intermediate_size, shard)
        case _:
            return _even(0, model.intermediate_size, shard)


def is_summed(name: str) -> bool:
    """Whether a product with the tensor gives each rank only a part of a sum."""
    match = _CUT.fullmatch(name)
    return match is not None and match[1] in ("o", "down")


def _even(axis: int, whole: int, shard: Shard) -> Cut:
    part = whole // shard.size
    return Cut(axis, shard.rank * part, (shard.rank + 1) * part, whole)
