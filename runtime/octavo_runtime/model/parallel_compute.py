"""A compute whose products span several ranks: each has its part of the weights, collectives make their results whole.

The layers are the plain loop over an inner compute's calls. A product that narrows (attention's out, the MLP's down) gives a part
of a sum, so the ranks add up after it; the embedding gives rows of the ids that a rank holds and zeros for others, so they add up
too; the head's columns are gathered on rank 0, which alone draws.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from octavo_runtime.model.collectives import Collectives
from octavo_runtime.model.compute import Compute, Embedding, Layers, LayerWeights, Product
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.layers import LayerLoop
from octavo_runtime.model.linear import Epilogue
from octavo_runtime.model.rotary import Rotary
from octavo_runtime.model.sampler import Drawing
from octavo_runtime.model.sharding import Shard, is_summed, vocabulary
from octavo_runtime.model.weights import WeightReader

_HEAD = "lm_head.weight"


class SummedProduct:
    """A `Product` by columns: each rank's result is a part of the sum."""

    def __init__(self, part: Product, ranks: Collectives) -> None:
        self._part = part
        self._ranks = ranks

    def __call__(self, x: Tensor, epilogue: Epilogue = "none", addend: Tensor | None = None) -> Tensor:
        assert epilogue == "none"  # nothing may come before the sum
        assert addend is None
        return self._ranks.summed(self._part(x))

    def argmax(self, x: Tensor) -> Tensor:
        return self(x).argmax(-1)


class ParallelHead:
    """A `Product` with the vocabulary's rows. Rank 0 gets the whole result; the others their own columns, which nobody looks at."""

    def __init__(self, part: Product, tokens: int, ranks: Collectives) -> None:
        self._part = part
        self._ranks = ranks
        self._tokens = tokens
        self._first = vocabulary(tokens, Shard(ranks.rank, ranks.size)).start
        self._share = len(vocabulary(tokens, Shard(0, ranks.size)))

    def __call__(self, x: Tensor, epilogue: Epilogue = "none", addend: Tensor | None = None) -> Tensor:
        assert epilogue == "none"
        assert addend is None
        own = self._part(x)
        parts = self._ranks.gathered(functional.pad(own, (0, self._share - own.shape[1])))
        return own if parts is None else torch.cat(parts, -1)[:, : self._tokens]

    def argmax(self, x: Tensor) -> Tensor:
        """Only each rank's best travels; of equal ones the lowest rank's, whose ids are lower."""
        values, ids = self._part(x).max(-1)
        own = torch.stack([values.double(), (ids + self._first).double()], -1)
        parts = self._ranks.gathered(own)
        if parts is None:
            return ids
        best = torch.stack(parts)
        winner = best[:, :, 0].argmax(0, keepdim=True)
        return best[:, :, 1].gather(0, winner)[0].long()


class ParallelEmbedding:
    """An `Embedding` whose rows are shared out by the vocabulary."""

    def __init__(self, part: Embedding, tokens: int, ranks: Collectives) -> None:
        self._part = part
        self._tokens = tokens
        self._ranks = ranks
        self._own = vocabulary(tokens, Shard(ranks.rank, ranks.size))

    def rows(self, ids: Tensor) -> Tensor:
        foreign = (ids < self._own.start) | (ids >= self._own.stop)
        rows = self._part.rows((ids - self._own.start).masked_fill_(foreign, 0))
        return self._ranks.summed(rows.masked_fill_(foreign.unsqueeze(1), 0))

    def product(self) -> Product:
        return ParallelHead(self._part.product(), self._tokens, self._ranks)


class ParallelCompute:
    """A `Compute` over one rank's part of the weights, see `sharded_weights.py`."""

    def __init__(self, part: Compute, ranks: Collectives) -> None:
        self.name = part.name
        self._part = part
        self._ranks = ranks

    def product(self, weights: WeightReader, parts: Mapping[str, tuple[int, int]]) -> Product:
        if _HEAD in parts:
            tokens, hidden = parts[_HEAD]
            return ParallelHead(self._part.product(weights, {_HEAD: (self._rows(tokens), hidden)}), tokens, self._ranks)
        product = self._part.product(weights, parts)
        return SummedProduct(product, self._ranks) if any(map(is_summed, parts)) else product

    def embedding(self, weights: WeightReader, name: str, shape: tuple[int, int]) -> Embedding:
        tokens, hidden = shape
        return ParallelEmbedding(self._part.embedding(weights, name, (self._rows(tokens), hidden)), tokens, self._ranks)

    def vector(self, weights: WeightReader, name: str, length: int) -> Tensor:
        return self._part.vector(weights, name, length)

    def layers(self, config: ModelConfig, weights: Sequence[LayerWeights], rotary: Rotary) -> Layers:
        return LayerLoop(config, weights, rotary, self)

    @property
    def drawing(self) -> Drawing:
        return self._part.drawing

    def padded_rows(self, rows: int) -> int:
        return self._part.padded_rows(rows)

    def add_rms_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        return self._part.add_rms_norm(residual, delta, weight, eps)

    def _rows(self, tokens: int) -> int:
        return len(vocabulary(tokens, Shard(self._ranks.rank, self._ranks.size)))
