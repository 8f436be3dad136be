"""The CPU kernels over tensors: checks that what is passed is what the source reads, then one call each.

fp32 activations, bf16 weights. Tensors are on the CPU and contiguous unless said otherwise.
"""

import ctypes
import dataclasses
from collections.abc import Sequence

import torch
from torch import Tensor

from octavo_kernels.cpu.arena import Arena
from octavo_kernels.cpu.library import Draw, Importance, Layer, Library, Model, PackedWeight, Step
from octavo_kernels.cpu.pages import Pages
from octavo_kernels.kv_form import Forms

PANEL = 16  # columns that lie together in a packed weight
_NONE, _SILU_MUL, _ARGMAX = 0, 1, 2
MOST_GROUP = 32  # query heads to a KV head


@dataclasses.dataclass(frozen=True, eq=False)
class Packed:
    """A weight `[n, k]` in panels: `storage` (uint8) holds it."""

    storage: Tensor
    n: int
    k: int
    entry: PackedWeight  # what the kernels are given; points into storage


def _importance(weighed: tuple[Tensor, Tensor] | None) -> Importance:
    if weighed is None:
        return Importance()
    sequences, mass = weighed
    assert sequences.dtype == torch.int32
    assert mass.dtype == torch.float32
    assert mass.is_contiguous()
    return Importance(sequences.data_ptr(), mass.data_ptr(), mass.stride(0), len(sequences))


def _pointers(forms: Forms | None) -> tuple[int | None, int | None]:
    """Of the tokens' forms and of the sequences'."""
    return (None, None) if forms is None else (forms.tokens.data_ptr(), forms.sequences.data_ptr())


class CpuKernels:
    """The functions of one library. Calls must not overlap: one thread makes them."""

    def __init__(self, library: Library) -> None:
        self._library = library.functions
        self.tier = library.tier
        self._arena = Arena()

    def pack(self, weight: Tensor) -> Packed:
        """weight bf16 `[n, k]`."""
        n, k = weight.shape
        assert weight.dtype == torch.bfloat16
        assert weight.is_contiguous()
        packed = self.packed(self._arena.empty(self.packed_bytes(n, k)), n, k)
        self._library.octavo_pack(weight.data_ptr(), ctypes.byref(packed.entry))
        return packed

    def packed_bytes(self, n: int, k: int) -> int:
        return int(self._library.octavo_weight(None, n, k, ctypes.byref(PackedWeight())))

    def packed(self, storage: Tensor, n: int, k: int) -> Packed:
        """The weight that `storage` holds already, as `pack` left it on this tier."""
        entry = PackedWeight()
        assert storage.numel() == self._library.octavo_weight(storage.data_ptr(), n, k, ctypes.byref(entry))
        return Packed(storage, n, k, entry)

    def rows(self, weight: Packed, ids: Tensor) -> Tensor:
        """Rows `ids` (int64 `[T]`) of a weight: fp32 `[T, k]`."""
        out = torch.empty(ids.shape[0], weight.k)
        self._library.octavo_rows(ctypes.byref(weight.entry), ids.data_ptr(), ids.shape[0], out.data_ptr())
        return out

    def linear(self, weight: Packed, x: Tensor, addend: Tensor | None = None) -> Tensor:
        """x · Wᵀ + addend: x `[T, k]`, addend `[n]` or `[T, n]` → `[T, n]`."""
        out = torch.empty(x.shape[0], weight.n)
        stride = 0 if addend is None or addend.dim() == 1 else weight.n
        self._multiply(weight, x, addend, stride, _NONE, out)
        return out

    def gated(self, weight: Packed, x: Tensor) -> Tensor:
        """SiLU(gate) · up with `[gate | up]` rows of W, n a multiple of 32: x `[T, k]` → `[T, n / 2]`."""
        assert weight.n % (2 * PANEL) == 0
        out = torch.empty(x.shape[0], weight.n // 2)
        self._multiply(weight, x, None, 0, _SILU_MUL, out)
        return out

    def argmax(self, weight: Packed, x: Tensor) -> Tensor:
        """The column with the greatest value of each row of x · Wᵀ, of equal ones the lowest: int64 `[T]`."""
        out = torch.empty(x.shape[0], dtype=torch.int64)
        self._multiply(weight, x, None, 0, _ARGMAX, out)
        return out

    def _multiply(
        self, weight: Packed, x: Tensor, addend: Tensor | None, stride: int, epilogue: int, out: Tensor
    ) -> None:
        assert x.dtype == torch.float32
        assert x.shape[1] == weight.k
        assert x.is_contiguous()
        add = None if addend is None else addend.data_ptr()
        self._library.octavo_linear(
            ctypes.byref(weight.entry), x.data_ptr(), x.shape[0], add, stride, epilogue, out.data_ptr()
        )

    def add_rms_norm(self, residual: Tensor, delta: Tensor | None, weight: Tensor, eps: float) -> Tensor:
        """residual += delta, in place; → residual / rms · weight. fp32 `[T, N]`, weight fp32 `[N]`."""
        assert residual.is_contiguous()
        assert residual.dtype == weight.dtype == torch.float32
        out = torch.empty_like(residual)
        rows, width = residual.shape
        add = None if delta is None else delta.data_ptr()
        self._library.octavo_add_rms_norm(residual.data_ptr(), add, weight.data_ptr(), eps, rows, width, out.data_ptr())
        return out

    def rotate_and_write(
        self,
        pages: Pages,
        qkv: Tensor,
        angles: tuple[Tensor, Tensor],
        positions: Tensor,
        norms: tuple[Tensor, Tensor, float] | None,
        kv_layer: Tensor,
        slot_map: Tensor,
        forms: Forms | None = None,
    ) -> None:
        """qkv fp32 `[T, Hq + 2 Hkv, D]`, in place; angles: cos and sin fp32 `[positions, D/2]`; positions, slot_map int64 `[T]`."""
        assert qkv.is_contiguous()
        cos, sin = angles
        q_norm, k_norm, eps = (
            (None, None, 0.0) if norms is None else (norms[0].data_ptr(), norms[1].data_ptr(), norms[2])
        )
        self._library.octavo_rotate_and_write(
            *(
                pages.shapes,
                _pointers(forms)[0],
                qkv.data_ptr(),
                qkv.shape[0],
                cos.data_ptr(),
                sin.data_ptr(),
                positions.data_ptr(),
            ),
            *(q_norm, k_norm, eps, kv_layer.data_ptr(), slot_map.data_ptr()),
        )

    def attend(
        self,
        pages: Pages,
        q: Tensor,
        kv_layer: Tensor,
        page_table: Tensor,
        cu_q: Tensor,
        kv_len: Tensor,
        scale: float,
        window: int | None,
        out: Tensor,
        forms: Forms | None = None,
    ) -> None:
        """q fp32 `[T, Hq, D]`, its tokens any distance apart; page_table int64 `[B, P]`, cu_q int32 `[B + 1]`, kv_len int32 `[B]`.

        Writes the first cu_q[B] tokens of out fp32 `[T, Hq, D]`.
        """
        assert q.stride()[1:] == (pages.shapes[0].dim, 1)
        assert page_table.is_contiguous()
        self._library.octavo_attend(
            *(pages.shapes, _pointers(forms)[1], q.data_ptr(), q.stride(0), kv_layer.data_ptr(), page_table.data_ptr()),
            *(
                page_table.stride(0),
                cu_q.data_ptr(),
                kv_len.data_ptr(),
                kv_len.shape[0],
                scale,
                window or 0,
                out.data_ptr(),
            ),
        )

    def weigh(
        self,
        pages: Pages,
        q: Tensor,
        kv_layer: Tensor,
        page_table: Tensor,
        cu_q: Tensor,
        kv_len: Tensor,
        scale: float,
        weighed: tuple[Tensor, Tensor],
        forms: Forms | None = None,
    ) -> None:
        """Add the attention that pages get: weighed are sequences int32 `[K]`, ascending, and mass fp32 `[K, P]`, see
        `reference.attention_to_pages`. The rest as `attend`, without a window."""
        assert q.stride()[1:] == (pages.shapes[0].dim, 1)
        assert page_table.is_contiguous()
        self._library.octavo_weigh(
            *(pages.shapes, _pointers(forms)[1], q.data_ptr(), q.stride(0), kv_layer.data_ptr(), page_table.data_ptr()),
            *(page_table.stride(0), cu_q.data_ptr(), kv_len.data_ptr(), scale, ctypes.byref(_importance(weighed))),
        )

    def layers(
        self,
        model: Model,
        layers: "ctypes.Array[Layer]",
        kv_layers: Sequence[Tensor],
        step: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
        residual: Tensor,
        forms: Forms | None = None,
        weighed: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """All layers over the residual stream fp32 `[T, hidden]`, in place.

        step: positions and slot_map int64 `[T]`, page_table int64 `[B, P]`, cu_q int32 `[B + 1]`, kv_len int32 `[B]`. weighed: as
        `weigh` takes it; each layer adds to it.
        """
        assert residual.is_contiguous()
        assert residual.dtype == torch.float32
        assert len(kv_layers) == len(layers)
        positions, slot_map, page_table, cu_q, kv_len = step
        assert page_table.is_contiguous()
        entry = Step(
            *(positions.data_ptr(), slot_map.data_ptr(), page_table.data_ptr(), cu_q.data_ptr(), kv_len.data_ptr()),
            *_pointers(forms),
            *(page_table.stride(0), residual.shape[0], kv_len.shape[0], _importance(weighed)),
        )
        pages = (ctypes.c_void_p * len(layers))(*(one.data_ptr() for one in kv_layers))
        self._library.octavo_layers(
            *(ctypes.byref(model), layers, len(layers), pages, ctypes.byref(entry), residual.data_ptr())
        )

    def draw(self, logits: Tensor, draws: Sequence[tuple[int, int, int, float]]) -> list[int]:
        """A token for each (row, seed, position, temperature): the argmax of logits[row] / temperature + `philox.gumbel`'s noise.

        logits fp32 `[R, V]`, -inf where a token may not be drawn; temperature > 0.
        """
        assert logits.is_contiguous()
        assert logits.dtype == torch.float32
        entries = (Draw * len(draws))(*(Draw(seed, row, position, heat) for row, seed, position, heat in draws))
        out = torch.empty(len(draws), dtype=torch.int64)
        self._library.octavo_draw(logits.data_ptr(), logits.shape[1], entries, len(draws), out.data_ptr())
        return out.tolist()

    def rank(self, logits: Tensor, rows: Sequence[tuple[int, float]], wanted: int) -> tuple[Tensor, Tensor]:
        """For each (row, temperature) the `wanted` greatest of logits[row], greatest first, of equal ones the lower id.

        logits fp32 `[R, V]` → ids int32 `[rows, wanted]`, and fp64 `[rows]`: the sum of exp((x − greatest) / temperature).
        """
        assert logits.is_contiguous()
        assert logits.dtype == torch.float32
        assert wanted <= logits.shape[1]
        indices = torch.tensor([row for row, _ in rows], dtype=torch.int32)
        heats = torch.tensor([heat for _, heat in rows], dtype=torch.float32)
        ids = torch.empty(len(rows), wanted, dtype=torch.int32)
        masses = torch.empty(len(rows), dtype=torch.float64)
        self._library.octavo_rank(
            *(logits.data_ptr(), logits.shape[1], indices.data_ptr(), heats.data_ptr(), len(rows), wanted),
            *(ids.data_ptr(), masses.data_ptr()),
        )
        return ids, masses
