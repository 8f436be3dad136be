"""One model whose KV cache is kept in several forms beside each other, for `bench kv_quality`."""

import dataclasses
import itertools
import time
from pathlib import Path

import torch
from torch import Tensor

from octavo_kernels.kv_form import KV_KINDS, KvForm
from octavo_runtime.config import ServeConfig
from octavo_runtime.engine import cpu_model
from octavo_runtime.engine.kv_forms import kv_dtype_name
from octavo_runtime.engine.memory import usable_cpus
from octavo_runtime.model.attention import AttentionBackend, AttentionShape
from octavo_runtime.model.decoder import Decoder
from octavo_runtime.model.kv_pool import KvPool
from octavo_runtime.model.weights import WeightReader, open_checkpoint
from tests.runtime.model.batches import Chunk, attention_meta, shuffled_pages

CPU = torch.device("cpu")
_DENSE_PAGE_TOKENS = 32


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    decoder: Decoder
    backends: dict[KvForm, AttentionBackend]  # that of the full cache first
    dtype: torch.dtype

    def token_bytes(self, form: KvForm) -> int:
        """Of one token's keys and values in all layers."""
        config = self.decoder.config
        page_bytes = form.page_bytes(config.kv_heads, config.head_dim, self.dtype)
        return config.layers * page_bytes // form.page_size

    def names(self, form: KvForm) -> tuple[str, str]:
        """Of its keys and of its values."""
        keys, values = (KvForm(form.page_size, kind, kind) for kind in (form.keys, form.values))
        return kv_dtype_name(keys, self.dtype), kv_dtype_name(values, self.dtype)


def load(path: Path, positions: int) -> Model:
    """With the compute that a service on this CPU has, for contexts of up to `positions` tokens."""
    checkpoint = open_checkpoint(path)
    config = checkpoint.config
    forms = [KvForm(_page_size(*kinds), *kinds) for kinds in itertools.product(KV_KINDS, repeat=2)]
    cpu = cpu_model.choose(ServeConfig(str(path), device="cpu"), config, _DENSE_PAGE_TOKENS, usable_cpus())
    with torch.inference_mode():
        reader = WeightReader(checkpoint, cpu.dtype, lambda percent: None)
        decoder = Decoder(config, reader, positions, CPU, cpu.computing())
    sizes = config.heads, config.kv_heads, config.head_dim
    backends = {form: cpu.backend(AttentionShape(*sizes, form.page_size, cpu.dtype, (form,))) for form in forms}
    return Model(decoder, backends, cpu.dtype)


def _page_size(keys: str, values: str) -> int:
    return _DENSE_PAGE_TOKENS if "dense" in (keys, values) else 2 * _DENSE_PAGE_TOKENS


class Cache:
    """The KV cache of `rows` sequences of up to `tokens` tokens in one form."""

    def __init__(self, model: Model, form: KvForm, rows: int, tokens: int) -> None:
        self._decoder, self._backend, self._form = model.decoder, model.backends[form], form
        self._table = shuffled_pages(rows, tokens, form.page_size)
        self._pool = KvPool(model.decoder.config.layers, self._table.numel(), self._backend.page_bytes, CPU)

    def read(self, ids: list[int], start: int) -> Tensor:
        """Let the first sequence go on with `ids` from position `start`; the logits of each of them, fp32 `[len(ids), V]`."""
        meta = attention_meta([Chunk(0, start, len(ids))], self._table, self._form.page_size)
        with torch.inference_mode():
            hidden = self._decoder.hidden(torch.tensor(ids), meta, self._backend, self._pool.layers)
            return self._decoder.logits(hidden)

    def step_s(self, position: int) -> float:
        """Seconds of a step in which every sequence computes its token at `position`."""
        rows = len(self._table)
        meta = attention_meta([Chunk(row, position, 1) for row in range(rows)], self._table, self._form.page_size)
        ids = torch.arange(rows) % self._decoder.config.vocab_size
        started_s = time.perf_counter()
        with torch.inference_mode():
            self._decoder.likeliest(self._decoder.hidden(ids, meta, self._backend, self._pool.layers))
        return time.perf_counter() - started_s
