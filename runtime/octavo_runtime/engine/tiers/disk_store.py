"""The books of the disk tier: which blocks have files, within a bound of bytes, the longest unused ones deleted first.

`<folder>/<kind>/<key>.kv`, one block each. What an earlier engine left is found at the start by the files' names; what another
kind of engine left counts and is the first to go. One engine has a folder at a time. Nothing here reads or writes blocks.
"""

import collections
import fcntl
import logging
import os
import re
from pathlib import Path

from octavo_runtime.config import ConfigError
from octavo_runtime.engine.tiers.block_file import BlockKind

log = logging.getLogger("octavo.engine")

_KIND_FOLDER = re.compile(r"[0-9a-f]{16}-\d+of\d+")
_BLOCK_NAME = re.compile(r"[0-9a-f]{64}\.kv")


class DiskStore:
    """Raises ConfigError for a folder that cannot be had."""

    def __init__(self, folder: Path, limit_bytes: int, kind: BlockKind) -> None:
        self._limit_bytes = limit_bytes
        self._kind = kind
        self._own = folder / kind.folder
        try:
            self._own.mkdir(mode=0o700, parents=True, exist_ok=True)  # what was said is nobody else's
            self._lock = _locked(folder / "lock")
            self._files = _scan(folder, self._own)
            self.bytes = sum(self._files.values())
            self.blocks = sum(path.parent == self._own for path in self._files)
            deleted = self._cut()
        except OSError as error:
            raise ConfigError(
                f"--kv-tier-disk {folder}: {error.strerror}: give a folder that can be written to"
            ) from None
        self._reserved_bytes = 0
        if self._files or deleted:
            log.info("the disk tier begins with %d blocks in %s, %d deleted", self.blocks, self._own, deleted)

    @property
    def most_blocks(self) -> int:
        return self._limit_bytes // self._kind.file_bytes

    def __contains__(self, key: bytes) -> bool:
        return self.path(key) in self._files

    def _cut(self) -> int:
        """Delete what an earlier engine left beyond the bound; how many files."""
        deleted = 0
        while self.bytes > self._limit_bytes:
            path = next(iter(self._files))
            path.unlink(missing_ok=True)
            self.drop(path)
            deleted += 1
        return deleted

    def close(self) -> None:
        """Let another engine have the folder."""
        os.close(self._lock)

    def find(self, key: bytes) -> Path | None:
        """The block's file, which counts as used."""
        path = self.path(key)
        if path not in self._files:
            return None
        self._files.move_to_end(path)
        return path

    def path(self, key: bytes) -> Path:
        return self._own / f"{key.hex()}.kv"

    def make_room(self) -> list[Path] | None:
        """Reserve room for one more block: the files to delete for it first, which are not found any more. None, and nothing is
        reserved, where blocks that are being written take all that the bound allows.
        """
        size_bytes = self._kind.file_bytes
        if self._reserved_bytes + size_bytes > self._limit_bytes:
            return None
        deleted = []
        while self.bytes + size_bytes > self._limit_bytes:
            deleted.append(next(iter(self._files)))
            self.drop(deleted[-1])
        self._reserved_bytes += size_bytes
        self.bytes += size_bytes
        return deleted

    def written(self, path: Path) -> None:
        """The block that room was reserved for is there."""
        self._reserved_bytes -= self._kind.file_bytes
        self._files[path] = self._kind.file_bytes
        self.blocks += 1

    def failed(self) -> None:
        """The block that room was reserved for is not there."""
        self._reserved_bytes -= self._kind.file_bytes
        self.bytes -= self._kind.file_bytes

    def drop(self, path: Path) -> None:
        """It is not found any more."""
        size_bytes = self._files.pop(path, None)
        if size_bytes is not None:
            self.bytes -= size_bytes
            self.blocks -= path.parent == self._own


def _locked(path: Path) -> int:
    """The lock's descriptor; it is free again when the process that has it ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise ConfigError(f"--kv-tier-disk {path.parent}: another runtime has this folder: give each its own") from None
    return descriptor


def _scan(folder: Path, own: Path) -> collections.OrderedDict[Path, int]:
    """Sizes of the blocks' files: other kinds' first, then by last use. What was not finished is deleted."""
    found: list[tuple[bool, float, Path, int]] = []
    for kind in sorted(path for path in folder.iterdir() if _KIND_FOLDER.fullmatch(path.name)):
        for path in kind.iterdir():
            if path.suffix == ".tmp":
                path.unlink()
            elif _BLOCK_NAME.fullmatch(path.name):
                status = path.stat()
                found.append((kind == own, status.st_mtime, path, status.st_size))
    return collections.OrderedDict((path, size_bytes) for _, _, path, size_bytes in sorted(found))
