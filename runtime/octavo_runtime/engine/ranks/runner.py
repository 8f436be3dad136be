"""The runner of a rank that is not alone: rank 0 draws for all of them, and tells the others the ids.

A step for which any rank finds no memory fails on all of them alike, see `model/memory_votes.py`. After a step's last vote only
rank 0 needs more: it says with the ids that there are none.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from octavo_runtime.engine.allocation import is_allocation_failure
from octavo_runtime.engine.plan import StepPlan
from octavo_runtime.engine.runner import ModelRunner
from octavo_runtime.model.attention import AttentionBackend
from octavo_runtime.model.collectives import Collectives
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.memory_votes import PeerMemoryError
from octavo_runtime.model.sampler import Draw, Row

_NONE = -1  # in place of an id: rank 0 found no memory to draw it


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
        max_num_batched_tokens: int,
    ) -> None:
        super().__init__(model, backend, pool, page_size, max_num_seqs, max_model_len)
        self._ranks = ranks
        self._width = model.config.hidden_size
        sums = 1 + 2 * model.config.layers  # of the embedding; of attention's and the MLP's last product
        self._votes = ranks.hold_votes(model.padded_rows(max_num_batched_tokens) * self._width, sums)

    def submit(self, plan: StepPlan) -> None:
        self._votes.begin(self._model.padded_rows(plan.tokens) * self._width)
        self._agreed(lambda: super(RankRunner, self).submit(plan))

    def sample(self, step: int, masks: None = None) -> None:
        self._agreed(lambda: self._sample(step))

    def _sample(self, step: int) -> None:
        super().sample(step)
        if not self._votes.settled:  # nothing was drawn
            self._votes.settle()

    def _agreed(self, act: Callable[[], None]) -> None:
        """Do it; where this rank has no memory for it, tell the others so."""
        try:
            act()
            return
        except PeerMemoryError:
            raise
        except (MemoryError, RuntimeError) as error:
            if not is_allocation_failure(error):
                raise
        # Not before here is what the step held given back: the error held its frames.
        self._votes.lack()

    def _draw(self, hidden: Tensor, rows: list[Row]) -> list[Draw]:
        if self._ranks.rank == 0:
            draws = self._drawn_if_possible(hidden, rows)
            ids = [_NONE] * len(rows) if draws is None else [draw.tokens[0] for draw in draws]
            self._ranks.from_first(torch.tensor(ids))
            if draws is None:
                raise PeerMemoryError([0])
            return draws
        # Take part in what rank 0 gathers.
        if all(row.plain_greedy for row in rows):
            self._model.likeliest(hidden)
        else:
            self._model.logits(hidden)
        drawn = self._ranks.from_first(torch.zeros(len(rows), dtype=torch.int64)).tolist()
        if _NONE in drawn:
            raise PeerMemoryError([0])
        return [Draw([token]) for token in drawn]

    def _drawn_if_possible(self, hidden: Tensor, rows: list[Row]) -> list[Draw] | None:
        """None: there was no memory for it when the ranks had agreed that there is, and the others wait for ids."""
        try:
            return super()._draw(hidden, rows)
        except PeerMemoryError:
            raise
        except (MemoryError, RuntimeError) as error:
            if not self._votes.settled or not is_allocation_failure(error):
                raise
        return None
