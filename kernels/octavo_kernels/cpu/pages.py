"""The pages of keys and values as the CPU kernels know them. `kv_pages.h` says what lies where in a page."""

from collections.abc import Sequence

import torch

from octavo_kernels.cpu.library import Shape
from octavo_kernels.kv_form import KV_KINDS, KvForm

_ALIGNMENT_BYTES = 64  # a line of the caches


class Pages:
    """Pages of one form or of several side by side, all as far apart as the largest needs. Dense is bf16."""

    def __init__(self, heads: int, kv_heads: int, head_dim: int, forms: Sequence[KvForm]) -> None:
        largest = max(form.page_bytes(kv_heads, head_dim, torch.bfloat16) for form in forms)
        self.page_bytes = -(-largest // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        kinds = [(form.page_size, KV_KINDS.index(form.keys), KV_KINDS.index(form.values)) for form in forms]
        self.shapes = (Shape * len(forms))(*(Shape(heads, kv_heads, head_dim, *of, self.page_bytes) for of in kinds))
