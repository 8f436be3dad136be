"""Several KV caches of one text beside each other, each within its budget, for `bench selective`.

The pages and what goes of them are the engine's own: its block pool, its tables, its rule.
"""

import dataclasses
import itertools

import torch
from torch import Tensor

from bench.kv_quality_model import Model
from octavo_kernels.kv_form import KvForm
from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.request import Request, Sequence
from octavo_runtime.engine.selective import KvBudget, weighed
from octavo_runtime.engine.tables import Tables
from octavo_runtime.messages import AddRequest, Sampling
from octavo_runtime.model.attention import AttentionMeta, Importance
from octavo_runtime.model.kv_pool import KvPool


@dataclasses.dataclass(frozen=True)
class Keeping:
    """What of a history is kept: all, or `budget_tokens`, the least attended to going first or, without `weighs`, the oldest."""

    budget_tokens: int | None = None
    weighs: bool = False

    @property
    def name(self) -> str:
        if self.budget_tokens is None:
            return "all"
        return "importance" if self.weighs else "sliding window"


class Caches:
    """One history for each keeping; all go on with the same tokens, or each with its own one."""

    def __init__(self, model: Model, keepings: list[Keeping], tokens: int) -> None:
        self._decoder = model.decoder
        form, self._backend = next(iter(model.backends.items()))
        self._page_size = form.page_size
        pages = sum(_most_pages(form, keeping, tokens) for keeping in keepings)
        self._pool = KvPool(model.decoder.config.layers, pages, self._backend.page_bytes, torch.device("cpu"))
        self._tables = Tables(BlockPool(pages, form.page_size), identity=None)
        self._keepings = keepings
        self._sequences = [_sequence(form, keeping) for keeping in keepings]

    @property
    def step_tokens(self) -> int:
        """The most that `read` takes at once."""
        budgets = [one.request.kv_budget for one in self._sequences if one.request.kv_budget is not None]
        return min((budget.step_tokens for budget in budgets), default=256)

    def read(self, ids: list[int]) -> Tensor:
        """All go on with `ids`; the logits of each of them, fp32 `[keepings, len(ids), V]`."""
        return self._step([ids] * len(self._sequences)).view(len(self._sequences), len(ids), -1)

    def read_own(self, ids: list[int]) -> Tensor:
        """The i-th goes on with ids[i]; its logits, fp32 `[keepings, V]`."""
        return self._step([[token] for token in ids])

    def _step(self, rows: list[list[int]]) -> Tensor:
        starts = [self._make_room(one, ids) for one, ids in zip(self._sequences, rows, strict=True)]
        meta = self._meta(starts, len(rows[0]))
        ids = torch.tensor([token for row in rows for token in row])
        with torch.inference_mode():
            logits = self._decoder.logits(self._decoder.hidden(ids, meta, self._backend, self._pool.layers))
        self._weigh(meta.importance, len(rows[0]))
        return logits

    def _make_room(self, sequence: Sequence, ids: list[int]) -> int:
        """Pages for its next tokens; the position of their first."""
        start = sequence.submitted
        sequence.tokens += ids
        fitting = self._tables.fit(sequence, len(ids))
        assert fitting == len(ids)
        held = self._tables.hold(sequence, start + len(ids))
        assert held
        sequence.computed = sequence.submitted = start + len(ids)
        return start

    def _meta(self, starts: list[int], count: int) -> AttentionMeta:
        kv_lens = [one.slots for one in self._sequences]
        width = max(len(one.pages) for one in self._sequences)
        table = torch.tensor([one.pages + [0] * (width - len(one.pages)) for one in self._sequences])
        slots = torch.tensor([range(kv_len - count, kv_len) for kv_len in kv_lens])
        slot_map = table.gather(1, slots // self._page_size) * self._page_size + slots % self._page_size
        asking = tuple(index for index, keeping in enumerate(self._keepings) if keeping.weighs)
        return AttentionMeta(
            cu_q=torch.arange(0, count * len(starts) + 1, count, dtype=torch.int32),
            kv_len=torch.tensor(kv_lens, dtype=torch.int32),
            pos=torch.tensor([range(start, start + count) for start in starts]).flatten(),
            page_table=table,
            slot_map=slot_map.flatten(),
            q_lens=(count,) * len(starts),
            kv_lens=tuple(kv_lens),
            importance=Importance(asking, torch.zeros(len(asking), width)) if asking else None,
        )

    def _weigh(self, importance: Importance | None, count: int) -> None:
        if importance is None:
            return
        means = (importance.mass / len(self._pool.layers)).tolist()
        for index, mass in zip(importance.sequences, means, strict=True):
            sequence = self._sequences[index]
            pages = sequence.pages
            sequence.weights = weighed(sequence.weights, pages, itertools.islice(mass, len(pages)), count)


def _most_pages(form: KvForm, keeping: Keeping, tokens: int) -> int:
    budget = keeping.budget_tokens
    return -(-tokens // form.page_size) if budget is None else KvBudget.of_tokens(budget, form.page_size).pages


def _sequence(form: KvForm, keeping: Keeping) -> Sequence:
    budget = keeping.budget_tokens
    asked = AddRequest("history", [], Sampling(), seed=0)
    limit = None if budget is None else KvBudget.of_tokens(budget, form.page_size)
    return Sequence(Request(asked, 0, 0.0, b"", kv_budget=limit), 0, [])
