"""The attention back end behind `--batch-invariant`: what a token gets has the same bits in every batch, chunk and page.

Torch's attention on a CPU takes each sequence and head by itself and its keys in blocks of 512; a matrix product inside runs in
one thread. What makes its sums depend on the batch is then only the shape of those products: how many query rows there are, and
how many slots the last block has. Here both are fixed: queries go in tiles of `TILE_ROWS` tokens, alone or not, and slots are
gathered up to a multiple of `TILE_SLOTS`. A block without visible slots adds zeros and scales by one, so longer company changes
nothing. That this holds for the torch and the machine at hand is measured at load (`model/invariance.py`).
"""

from torch import Tensor
from torch.nn import functional

from octavo_runtime.model.attention import AttentionShape, ReferenceBackend

# With the G query heads of a KV head a multiple of 4 rows, which products take without a remainder: of 3 rows, those alone and in
# company differ. 8 or 16 tokens make a prompt of 512 6 to 11 % faster (9 heads, 3 KV heads, D 64), 8 decoding 25 to 35 % slower.
TILE_ROWS = 4
# Torch's own block: in multiples of 64 or 128, the sums of one row break at other places for other longest sequences of a batch.
TILE_SLOTS = 512


class TiledBackend(ReferenceBackend):
    """As the reference, in tiles of fixed shape. Pages have the same form but another layout id, for other bits are in them."""

    name = "tiled"

    def __init__(self, shape: AttentionShape) -> None:
        super().__init__(shape)
        assert TILE_SLOTS % shape.page_size == 0  # every page size that there is divides it

    def _attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor, scale: float) -> Tensor:
        batch, rows, heads, width = q.shape
        padded = functional.pad(q, (0, 0, 0, 0, 0, -rows % TILE_ROWS))
        tiles = padded.shape[1] // TILE_ROWS
        assert tiles == 1 or batch == 1  # sequences of one token together, longer chunks alone
        out = super()._attend(
            padded.view(batch * tiles, TILE_ROWS, heads, width),
            k.expand(batch * tiles, -1, -1, -1),
            v.expand(batch * tiles, -1, -1, -1),
            visible.view(batch * tiles, TILE_ROWS, -1),
            scale,
        )
        return out.reshape(batch, tiles * TILE_ROWS, heads, width)[:, :rows]

    def _padded_rows(self, q_len: int) -> int:
        return -(-q_len // TILE_ROWS) * TILE_ROWS

    def _padded_slots(self, kv_len: int) -> int:
        return -(-kv_len // TILE_SLOTS) * TILE_SLOTS
