"""What of a model decides how much memory it needs."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Model:
    """A decoder of the Llama family. Sizes in elements, `max_position` and `window` in tokens.

    `tied_embeddings`: the head is the embedding, and the files hold no head of their own.
    """

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    max_position: int
    tied_embeddings: bool = False
    qkv_bias: bool = False
    qk_norm: bool = False
    window: int | None = None
