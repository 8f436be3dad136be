"""How much of a model each of several ranks holds; the runtime's `model/sharding.py` says which part.

Attention heads and the MLP are shared evenly. KV heads are split where there are at least as many as ranks, else each is held by
the ranks whose query heads use it. Of the vocabulary the last rank may hold fewer rows, not none.
"""

from typing import Protocol

from octavo_sizing.errors import DegreeError


class Shared(Protocol):
    """The sizes of a model that are shared."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def intermediate_size(self) -> int: ...
    @property
    def heads(self) -> int: ...
    @property
    def kv_heads(self) -> int: ...


def check_degree(model: Shared, ranks: int, field: str) -> None:
    """Raises DegreeError, with the degrees that would do; `field` is what the caller calls the degree."""
    possible = possible_degrees(model)
    if ranks not in possible:
        raise DegreeError(
            f"{field} {ranks}: the model's {model.heads} attention heads, {model.kv_heads} KV heads, MLP of "
            f"{model.intermediate_size} and {model.vocab_size} tokens cannot be shared evenly by {ranks} ranks: "
            f"give one of {', '.join(map(str, possible))}",
            possible,
        )


def possible_degrees(model: Shared) -> list[int]:
    return [ranks for ranks in range(1, model.heads + 1) if _divides(model, ranks)]


def local_kv_heads(model: Shared, ranks: int) -> int:
    return max(1, model.kv_heads // ranks)


def vocabulary_rows(tokens: int, ranks: int) -> int:
    """Rows of the embedding and of the head that a rank holds, the last one perhaps fewer."""
    return -(-tokens // ranks)


def _divides(model: Shared, ranks: int) -> bool:
    shares_kv = model.kv_heads % ranks == 0 or ranks % model.kv_heads == 0
    whole = model.heads % ranks == 0 and model.intermediate_size % ranks == 0
    return shares_kv and whole and (ranks - 1) * vocabulary_rows(model.vocab_size, ranks) < model.vocab_size
