"""What attention over KV pages is asked: whose token is which row of q, where its context lies, how scores become weights."""

import dataclasses

from torch import Tensor


@dataclasses.dataclass(frozen=True, eq=False)
class PagedBatch:
    """B sequences, all on one device. A view of some of a step's sequences is a batch too: `cu_q` counts the rows of the whole q.

    Sequence b's new tokens are the rows cu_q[b] … cu_q[b + 1] − 1 of q, possibly none; its context is kv_len[b] slots, the new
    tokens' last: new token i has slot kv_len − q_len + i and sees the slots up to it.
    """

    cu_q: Tensor  # int32 [B + 1]
    kv_len: Tensor  # int32 [B]; 0: nothing to see, the answer is zero
    page_table: Tensor  # int32 or int64 [B, P]; columns beyond a context are not read

    @property
    def size(self) -> int:
        return self.kv_len.shape[0]


@dataclasses.dataclass(frozen=True, eq=False)
class AttentionOptions:
    """score = q·k · scale, then softcap · tanh(score / softcap); only the last `window` slots count.

    sinks: for each head a score that takes its share of the softmax and has no value.
    """

    scale: float
    window: int | None = None
    softcap: float | None = None
    sinks: Tensor | None = None  # [Hq]
    head_scales: Tensor | None = None  # fp32 [2, Hkv]: of keys, of values; with the page format `fp8_head`

    def __post_init__(self) -> None:
        if self.window is not None and self.window < 1:
            raise ValueError(f"a window is at least 1 slot, not {self.window}; None is no window")
        if self.softcap is not None and self.softcap <= 0:
            raise ValueError(f"a softcap is positive, not {self.softcap}; None is no cap")
