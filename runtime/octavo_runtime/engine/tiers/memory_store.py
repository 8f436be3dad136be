"""The books of the memory tier: which row holds which block, the longest unused one given up first. Rows are numbers here."""

import collections
import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(eq=False)
class MemoryBlock:
    """A block in a row. While `pins` > 0 a transfer reads or writes the row, and it is not given to another block."""

    key: bytes
    row: int
    arrive: Callable[[], None] | None = None  # waits, in a worker's thread, until the content is in the row
    checksum: int | None = None  # None until a worker has seen the content
    pins: int = 0
    dropped: bool = False


class MemoryStore:
    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._free = list(range(rows - 1, -1, -1))
        self._blocks: collections.OrderedDict[bytes, MemoryBlock] = collections.OrderedDict()  # longest unused first

    def __len__(self) -> int:
        return len(self._blocks)

    def __contains__(self, key: bytes) -> bool:
        return key in self._blocks

    def find(self, key: bytes) -> MemoryBlock | None:
        """The block, which counts as used."""
        block = self._blocks.get(key)
        if block is not None:
            self._blocks.move_to_end(key)
        return block

    def claim(self, key: bytes) -> MemoryBlock | None:
        """A row for a new block, pinned; in place of the longest unused one that nothing pins. None if there is none."""
        assert key not in self._blocks
        if not self._free:
            unused = next((one for one in self._blocks.values() if not one.pins), None)
            if unused is None:
                return None
            self.drop(unused)
        block = MemoryBlock(key, self._free.pop(), pins=1)
        self._blocks[key] = block
        return block

    def drop(self, block: MemoryBlock) -> None:
        """It is not found any more; its row is free when nothing pins it."""
        if block.dropped:
            return
        block.dropped = True
        del self._blocks[block.key]
        if not block.pins:
            self._free.append(block.row)

    def unpin(self, block: MemoryBlock) -> None:
        block.pins -= 1
        if block.dropped and not block.pins:
            self._free.append(block.row)
