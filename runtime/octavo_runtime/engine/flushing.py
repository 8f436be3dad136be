"""At the end of the process KV pages that can still be found are written to the tier that outlives it, while there is time."""

import time
from collections.abc import Callable

from octavo_runtime.engine.block_pool import BlockPool
from octavo_runtime.engine.block_store import BlockStore

AT_ONCE_BLOCKS = 16  # half of what the disk's queue takes before it refuses
_LOOK_EVERY_S = 0.001


def flush(
    pool: BlockPool, store: BlockStore, within_s: float, clock_s: Callable[[], float] = time.monotonic
) -> tuple[int, int]:
    """What was used last first, for beginnings of prompts are released after what follows them; → blocks written, and left out."""
    if not store.lasting:
        return 0, 0
    until_s = clock_s() + within_s
    left = [(page, key) for page, key in reversed(pool.coldest(pool.cached)) if not store.has(key)]
    lacking = len(left)
    while (left or store.on_their_way) and clock_s() < until_s:
        store.poll()
        if left and store.on_their_way <= AT_ONCE_BLOCKS:
            now, left = left[:AT_ONCE_BLOCKS], left[AT_ONCE_BLOCKS:]
            store.put([key for _, key in now], [page for page, _ in now])
        else:
            time.sleep(_LOOK_EVERY_S)
    return lacking - len(left) - store.on_their_way, len(left) + store.on_their_way
