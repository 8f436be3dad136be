"""The runner of a rank that is not alone: rank 0 draws for all of them, and tells the others the ids."""

import torch
from torch import Tensor

from octavo_runtime.engine.runner import ModelRunner
from octavo_runtime.model.attention import AttentionBackend
from octavo_runtime.model.collectives import Collectives
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.sampler import Draw, Row


class RankRunner(ModelRunner):
    """A `ModelRunner`; every rank's is given the same plans."""

    def __init__(
        self,
        model: Decoder,
        backend: AttentionBackend,
        pool: KvPool,
        page_size: int,
        max_num_seqs: int,
        max_model_len: int,
        ranks: Collectives,
    ) -> None:
        super().__init__(model, backend, pool, page_size, max_num_seqs, max_model_len)
        self._ranks = ranks

    def _draw(self, hidden: Tensor, rows: list[Row]) -> list[Draw]:
        if self._ranks.rank == 0:
            draws = super()._draw(hidden, rows)
            self._ranks.from_first(torch.tensor([draw.tokens[0] for draw in draws]))
            return draws
        # Take part in what rank 0 gathers.
        if all(row.plain_greedy for row in rows):
            self._model.likeliest(hidden)
        else:
            self._model.logits(hidden)
        drawn = self._ranks.from_first(torch.zeros(len(rows), dtype=torch.int64))
        return [Draw([token]) for token in drawn.tolist()]
