"""How a device's steps read pages below its pool, which lie in the host's memory: brought in, or attended to where they are."""

import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
from torch import Tensor

from octavo_runtime.engine.device_slots import SlotTable, StepBatch
from octavo_runtime.engine.device_stream import DeviceStream
from octavo_runtime.engine.early_attention import EarlyRows, HostAttention, SplitAttention, narrowed
from octavo_runtime.engine.early_costs import Corner, StepCost, Way, WayCosts, corners
from octavo_runtime.engine.plan import Run, StepPlan
from octavo_runtime.engine.rehearsal import early_plan
from octavo_runtime.engine.staging import Staging
from octavo_runtime.model.attention import AttentionBackend, AttentionMeta, AttentionShape
from octavo_runtime.model.attention_parts import PartsBackend
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.overflow import Overflow

log = logging.getLogger("octavo.engine")

# Of a step that the host attends for; larger ones are brought their pages. For 256 tokens and 4 heads a KV head the host would do
# 1,024 operations for each byte that a bus brings: 25 TFLOP/s where that has 25 GB/s.
MOST_TOKENS = 256
_FEW_QUERIES = 2  # more than one token and no chunk: kernels are compiled apart for them


@dataclasses.dataclass(frozen=True, eq=False)
class Reading:
    """What a step runs with."""

    backend: AttentionBackend
    layers: Sequence[Tensor]
    early: tuple[Tensor, Sequence[int]] | None = None  # pages of each sequence that the host attends to: there and here


class EarlyPages:
    """`most_tokens`: of a step that the host attends for. `choice`: the way to take for so many new tokens and early pages;
    bringing in until `measure`."""

    def __init__(
        self,
        overflow: Overflow,
        backend: PartsBackend,
        pool: KvPool,
        shape: AttentionShape,
        stream: DeviceStream,
        most_tokens: int,
    ) -> None:
        self.choice: Callable[[int, int], Way] = _always("bring")
        self._overflow = overflow
        self._backend = backend
        self._pool = pool
        self._page_size = shape.page_size
        self._most_tokens = most_tokens
        self._host = HostAttention(backend, shape, stream, most_tokens)
        overflow.run_on(stream.active)

    def reading(self, runs: list[Run], slots: SlotTable, batch: StepBatch, staging: Staging) -> Reading | None:
        """For a step that reads such pages; None for all others. May put an array."""
        tables = [slots.table(run) for run in runs]
        counts = [int((table > self._pool.pages).sum()) for table in tables]
        if not any(counts):
            return None
        queries = sum(run.count for run, count in zip(runs, counts, strict=True) if count)
        fits = len(batch.ids) <= self._most_tokens and not batch.weighed
        if not fits or self.choice(queries, sum(counts)) == "bring":
            return Reading(self._backend, self._overflow.layers(*slots.pages(runs)))
        rows = [
            self._rows(batch, index, table[:count])
            for index, (table, count) in enumerate(zip(tables, counts, strict=True))
            if count
        ]
        early = np.array(counts + [0] * (len(batch.slots) - len(runs)), dtype=np.int64)
        split = SplitAttention(self._backend, self._host, rows, self._overflow.lower)
        return Reading(split, self._pool.layers, (staging.put(early), early.tolist()))

    def narrowed(self, meta: AttentionMeta, reading: Reading) -> AttentionMeta:
        """What of the step's batch the device attends to."""
        return meta if reading.early is None else narrowed(meta, *reading.early, self._page_size)

    def measure(self, run: Callable[[StepPlan], None], max_model_len: int) -> Iterator[int]:
        """Time both ways by steps that are run to their ends, and choose by that from here on. Yields percentages."""
        both = corners(self._most_tokens, self._overflow.pages, self._page_size, max_model_len)
        if both is None:
            return
        few, many = both
        costs: dict[Way, StepCost] = {}
        for done, way in enumerate(_WAYS):
            self.choice = _always(way)
            between = Corner(min(_FEW_QUERIES, many.queries), few.pages)
            run(self._plan(between))
            taken = []
            for queries in (few.queries, many.queries):
                for pages in (few.pages, many.pages):
                    taken.append(_least_s(run, self._plan(Corner(queries, pages))))
                    yield 50 * done + 12 * len(taken)
            costs[way] = StepCost(few, many, *taken)
        measured = WayCosts(costs["attend"], costs["bring"])
        _tell(measured, self._page_size)
        self.choice = measured.choice
        yield 100

    def _plan(self, corner: Corner) -> StepPlan:
        first = self._pool.pages + 1
        return early_plan(list(range(first, first + corner.pages)), self._page_size, corner.queries)

    def _rows(self, batch: StepBatch, index: int, pages: npt.NDArray[np.int64]) -> EarlyRows:
        begin, end = (int(at) for at in batch.cu_q[index : index + 2])
        first = self._pool.pages + 1
        assert (pages >= first).all()  # the earliest of its table
        own_slot = int(batch.kv_len[index]) - (end - begin)
        assert own_slot >= len(pages) * self._page_size
        return EarlyRows(begin, end, tuple((pages - first).tolist()), own_slot)


_WAYS: tuple[Way, ...] = ("bring", "attend")
_RUNS = 2  # that are timed, after one that meets what is new


def _always(way: Way) -> Callable[[int, int], Way]:
    return lambda queries, pages: way


def _least_s(run: Callable[[StepPlan], None], plan: StepPlan) -> float:
    run(plan)
    taken_s = []
    for _ in range(_RUNS):
        started_s = time.perf_counter()
        run(plan)
        taken_s.append(time.perf_counter() - started_s)
    return min(taken_s)


def _tell(costs: WayCosts, page_size: int) -> None:
    few, many = costs.attend.few, costs.attend.many
    for queries in (few.queries, many.queries):
        attend_s, bring_s = costs.attend.seconds(queries, many.pages), costs.bring.seconds(queries, many.pages)
        log.info(
            "pages below the pool: a step of %d new tokens over %d tokens there takes %.1f ms where the host attends to them, "
            "%.1f ms where they are brought in: steps like it will %s",
            queries,
            many.pages * page_size,
            1000 * attend_s,
            1000 * bring_s,
            "attend on the host" if costs.choice(queries, many.pages) == "attend" else "bring them in",
        )
