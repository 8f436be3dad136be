"""The attention back end of GPUs: rotation, KV write and attention by Triton kernels over pages.

A step's sequences go to three launches at most: those of one token and the next few of at most 8 to the decode kernel, the rest to
the prefill kernel. A launch's grid and split count depend on how many sequences it has and on their longest chunk, never on the
length of a context, so a recorded decode step holds for all contexts.
"""

import dataclasses

import torch
from torch import Tensor

from octavo_kernels.gpu.decode_attention import MAX_QUERIES, decode_attention, split_count, workspace_floats
from octavo_kernels.gpu.kv_write import kv_write
from octavo_kernels.gpu.merge_parts import merge_parts
from octavo_kernels.gpu.page_importance import page_importance
from octavo_kernels.gpu.prefill_attention import prefill_attention
from octavo_kernels.gpu.rms_norm import rms_norm
from octavo_kernels.gpu.rope import rope
from octavo_kernels.kv_form import KvKind
from octavo_kernels.page_layout import KvFormat, PageLayout
from octavo_kernels.paged_batch import AttentionOptions, PagedBatch
from octavo_kernels.reference_paged import read_heads
from octavo_runtime.model.attention import AttentionMeta, AttentionShape, HeadNorms, Importance
from octavo_runtime.model.attention_parts import Part
from octavo_runtime.model.config import ModelError
from octavo_runtime.model.rotary import Rotary
from octavo_sizing.setup import WIDEST_GPU_HEAD

# Sequences of 2 to 8 tokens in one launch: their parts take 8 times the workspace, and more of them fill a GPU without splits.
_MOST_SHORT = 8


@dataclasses.dataclass(frozen=True)
class _Groups:
    """How many leading sequences have one token, how many of the next at most 8, and the most tokens of the rest."""

    singles: int
    short: int
    longest: int


class TritonBackend:
    """Steps have at most `most_sequences`. `processors`: how many the GPU has; the split count goes by it."""

    name = "triton"
    weighs = True

    def __init__(self, shape: AttentionShape, most_sequences: int, processors: int, device: torch.device) -> None:
        if shape.head_dim > WIDEST_GPU_HEAD:
            raise ModelError(
                f"head dimension {shape.head_dim}: the {self.name} attention back end has kernels up to {WIDEST_GPU_HEAD}; use "
                "--device cpu"
            )
        self.shape = shape
        self._processors = processors
        self._layout = _layout(shape)
        self.layout_id = self._layout.layout_id
        self.page_bytes = self._layout.page_bytes
        rows = [(batch, self._splits(batch)) for batch in range(1, most_sequences + 1)]
        rows.append((_MOST_SHORT * MAX_QUERIES, self._splits(_MOST_SHORT)))
        floats = max(workspace_floats(count, shape.heads, shape.head_dim, splits) for count, splits in rows)
        self._asking: tuple[Importance, Tensor] | None = None
        self._workspace = torch.empty(floats, dtype=torch.float32, device=device)

    def rotate_and_write(
        self, qkv: Tensor, rotary: Rotary, norms: HeadNorms | None, kv_layer: Tensor, meta: AttentionMeta
    ) -> Tensor:
        heads, kv_heads = self.shape.heads, self.shape.kv_heads
        q, k, v = torch.split(qkv, [heads, kv_heads, kv_heads], dim=1)
        if norms is not None:
            rms_norm(q, norms.q, norms.eps, out=q)
            rms_norm(k, norms.k, norms.eps, out=k)
        rope(qkv, rotary.cos, rotary.sin, meta.pos, heads + kv_heads)
        kv_write(k, v, kv_layer, meta.slot_map, self._layout)
        return q

    def attend(
        self,
        q: Tensor,
        kv_layer: Tensor,
        meta: AttentionMeta,
        scale: float,
        window: int | None,
        softcap: float | None,
        sinks: Tensor | None,
        importance_out: Importance | None = None,
    ) -> Tensor:
        options = AttentionOptions(scale, window, softcap, sinks)
        if importance_out is not None:
            self._weigh(q, kv_layer, meta, options, importance_out)
        out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
        self._attend(q, kv_layer, meta, options, out, None)
        return out

    def attend_part(self, q: Tensor, kv_layer: Tensor, meta: AttentionMeta, scale: float, window: int | None) -> Part:
        out = torch.empty(q.shape, dtype=torch.float32, device=q.device)
        log_sums = torch.full(q.shape[:2], -torch.inf, device=q.device)
        self._attend(q, kv_layer, meta, AttentionOptions(scale, window), out, log_sums)
        return Part(out, log_sums)

    def merge(self, first: Part, second: Part, dtype: torch.dtype) -> Tensor:
        out = torch.empty(first.out.shape, dtype=dtype, device=first.out.device)
        merge_parts(*first, *second, out)
        return out

    def read(self, kv_layer: Tensor, pages: Tensor | slice) -> tuple[Tensor, Tensor]:
        keys, values = read_heads(kv_layer, pages, self._layout)
        return keys, values

    def _attend(
        self,
        q: Tensor,
        kv_layer: Tensor,
        meta: AttentionMeta,
        options: AttentionOptions,
        out: Tensor,
        log_sums: Tensor | None,
    ) -> None:
        """Into `out` and, where given, `log_sums`."""
        out[sum(meta.q_lens) :].zero_()  # what only fills up the batch
        groups = _groups(meta.q_lens, meta.decodes)
        begin, middle = groups.singles, groups.singles + groups.short
        if groups.singles:
            splits = self._splits(groups.singles)
            self._decode(q, kv_layer, _part(meta, 0, begin), options, out, 1, splits, log_sums)
        if groups.short:
            splits = self._splits(_MOST_SHORT)
            self._decode(q, kv_layer, _part(meta, begin, middle), options, out, MAX_QUERIES, splits, log_sums)
        if groups.longest:
            rest = _part(meta, middle, len(meta.q_lens))
            prefill_attention(q, kv_layer, rest, self._layout, options, out, groups.longest, log_sums)

    def _weigh(
        self, q: Tensor, kv_layer: Tensor, meta: AttentionMeta, options: AttentionOptions, importance: Importance
    ) -> None:
        """Sequences of one token apart from the others: they need fewer rows of a tile."""
        batch, chosen = _part(meta, 0, len(meta.q_lens)), self._chosen(importance)
        singles = sum(index < meta.decodes for index in importance.sequences)
        longest = max((meta.q_lens[index] for index in importance.sequences[singles:]), default=0)
        for some, queries in ((slice(0, singles), 1), (slice(singles, None), longest)):
            if len(chosen[some]):
                rows = chosen[some], importance.mass[some]
                page_importance(q, kv_layer, batch, self._layout, options, *rows, queries)

    def _chosen(self, importance: Importance) -> Tensor:
        """On the device, once for all layers of a step."""
        if self._asking is None or self._asking[0] is not importance:
            device = importance.mass.device
            self._asking = importance, torch.tensor(importance.sequences, dtype=torch.int32, device=device)
        return self._asking[1]

    def _decode(
        self,
        q: Tensor,
        kv_layer: Tensor,
        batch: PagedBatch,
        options: AttentionOptions,
        out: Tensor,
        queries: int,
        splits: int,
        log_sums: Tensor | None,
    ) -> None:
        decode_attention(q, kv_layer, batch, self._layout, options, out, queries, splits, self._workspace, log_sums)

    def _splits(self, batch: int) -> int:
        return split_count(batch, self.shape.kv_heads, self._processors)


def _layout(shape: AttentionShape) -> PageLayout:
    """Raises ModelError for a form of pages that there are no kernels for."""
    form = shape.kv_forms[0]
    kinds: set[KvKind] = {form.keys, form.values}
    if kinds not in ({"dense"}, {"fp8"}, {"int8"}):
        raise ModelError(
            f"a KV cache of {form.keys} keys and {form.values} values: the GPU kernels have dense ones (--kv-cache-dtype auto) and "
            "one 8-bit type for both (fp8 or int8); or use --device cpu"
        )
    formats: dict[KvKind, KvFormat] = {"dense": "dense", "fp8": "fp8_token", "int8": "int8_token"}
    return PageLayout(shape.kv_heads, shape.head_dim, form.page_size, shape.dtype, formats[form.keys])


def _groups(q_lens: tuple[int, ...], singles: int) -> _Groups:
    most = min(len(q_lens), singles + _MOST_SHORT)
    end = next((i for i in range(singles, most) if q_lens[i] > MAX_QUERIES), most)
    return _Groups(singles, end - singles, max(q_lens[end:], default=0))


def _part(meta: AttentionMeta, first: int, last: int) -> PagedBatch:
    return PagedBatch(meta.cu_q[first : last + 1], meta.kv_len[first:last], meta.page_table[first:last])
