"""A step's batch on the device."""

import dataclasses

from torch import Tensor

from octavo_runtime.engine.device_slots import StepBatch
from octavo_runtime.engine.staging import Staging
from octavo_runtime.model.attention import AttentionMeta, Importance


@dataclasses.dataclass(frozen=True, eq=False)
class Inputs:
    """A `StepBatch` on the device."""

    slots: Tensor
    kv_len: Tensor
    cu_q: Tensor
    ids: Tensor
    pos: Tensor
    slot_map: Tensor

    @classmethod
    def put(cls, batch: StepBatch, staging: Staging) -> "Inputs":
        """They are there after the next `send`, in the same order in every step."""
        put = staging.put
        return cls(
            slots=put(batch.slots),
            kv_len=put(batch.kv_len),
            cu_q=put(batch.cu_q),
            ids=put(batch.ids),
            pos=put(batch.pos),
            slot_map=put(batch.slot_map),
        )

    def meta(
        self,
        page_table: Tensor,
        q_lens: tuple[int, ...],
        kv_lens: tuple[int, ...],
        importance: Importance | None,
    ) -> AttentionMeta:
        """page_table: of all slots."""
        return AttentionMeta(
            cu_q=self.cu_q,
            kv_len=self.kv_len,
            pos=self.pos,
            page_table=page_table.index_select(0, self.slots),
            slot_map=self.slot_map,
            q_lens=q_lens,
            kv_lens=kv_lens,
            importance=importance,
        )
