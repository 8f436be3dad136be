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
    """What was used last first, for beginnings of prompts are released after what follows them, and no more than there may be;
    → blocks written, and left out."""
    if not store.lasting_blocks:
        return 0, 0
    until_s = clock_s() + within_s
    cached = pool.coldest(pool.cached)
    lacking = [(page, key) for page, key in list(reversed(cached))[: store.lasting_blocks] if not store.lasts(key)]
    left = lacking
    while (left or store.on_their_way) and clock_s() < until_s:
        store.poll()
        if left and store.on_their_way <= AT_ONCE_BLOCKS:
            now, left = left[:AT_ONCE_BLOCKS], left[AT_ONCE_BLOCKS:]
            store.put([key for _, key in now], [page for page, _ in now])
        else:
            time.sleep(_LOOK_EVERY_S)
    written = sum(store.lasts(key) for _, key in lacking)
    return written, len(lacking) - written
