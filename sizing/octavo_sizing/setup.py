"""How a model is to be served, as far as it decides about memory; defaults are those of `octavo serve`."""

import dataclasses
from typing import Literal, get_args

Device = Literal["gpu", "cpu"]
Dtype = Literal["bfloat16", "float32"]
KvKind = Literal["dense", "int8", "fp8"]

DTYPES: tuple[Dtype, ...] = get_args(Dtype)
DTYPE_BYTES: dict[Dtype, int] = {"bfloat16": 2, "float32": 4}
KV_KINDS: tuple[KvKind, ...] = get_args(KvKind)
PAGE_TOKENS = (16, 32, 64, 128)
GPU_PAGE_TOKENS, CPU_PAGE_TOKENS = 16, 32
WIDEST_GPU_HEAD = 256  # elements, of the GPU's attention kernels
DEFAULT_GPU_MEMORY_PERCENT = 90
DEFAULT_MAX_NUM_SEQS = 64
DEFAULT_MAX_NUM_BATCHED_TOKENS = 512
DEFAULT_CPU_KV_BYTES = 2 << 30


@dataclasses.dataclass(frozen=True)
class Setup:
    """`memory_bytes`: of each GPU, or of a pod on CPUs; None where it is not known or has no limit. `memory_percent` of a GPU's
    may be used.

    `tensor` ranks on `nodes` nodes. `keys` and `values`: what they are kept as. `page_tokens` None is the automatic page size,
    `max_model_len` None the model's own context. `kv_bytes`: what is asked for, of each GPU or of all CPU ranks of a node.
    `tier_bytes`: of a node's memory, for pages that the pool reuses; `overflow_bytes`: for early pages of a sequence that is longer
    than the pool. `tiers`: whether there are any, in memory or on disk. `lossy`: a CPU's memory ladder may keep new requests in 8
    bits, in pages of twice as many tokens.
    """

    device: Device = "gpu"
    memory_bytes: int | None = None
    memory_percent: int = DEFAULT_GPU_MEMORY_PERCENT
    tensor: int = 1
    nodes: int = 1
    dtype: Dtype = "bfloat16"
    keys: KvKind = "dense"
    values: KvKind = "dense"
    page_tokens: int | None = None
    max_model_len: int | None = None
    max_num_seqs: int = DEFAULT_MAX_NUM_SEQS
    max_num_batched_tokens: int = DEFAULT_MAX_NUM_BATCHED_TOKENS
    kv_bytes: int | None = None
    tier_bytes: int = 0
    overflow_bytes: int = 0
    tiers: bool = False
    lossy: bool = False

    @property
    def block_size(self) -> int:
        """Tokens of a page: where it is automatic, 8-bit keys and values fill twice as many into its bytes."""
        if self.page_tokens is not None:
            return self.page_tokens
        dense = GPU_PAGE_TOKENS if self.device == "gpu" else CPU_PAGE_TOKENS
        return dense if "dense" in (self.keys, self.values) else 2 * dense

    @property
    def one_rank_only(self) -> str | None:
        """The flags that the runtime takes with one rank only, if any of them is given."""
        if self.overflow_bytes:
            return "--kv-overflow-memory"
        together = self.device == "cpu" and self.nodes == 1  # ranks that move their pages together
        return "--kv-tier-memory or --kv-tier-disk" if self.tiers and not together else None

    @property
    def sharing(self) -> int:
        """How many ranks share the memory that is counted: those of a node on CPUs; every GPU has its own."""
        return 1 if self.device == "gpu" else self.tensor // self.nodes
