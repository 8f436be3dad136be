"""The weights' cache: what the first load packs is written to a folder, later starts map it shared instead of reading and packing.

A file belongs to a model's content (its fingerprint, sizes and times of its files), the scheme that packed it (the CPU tier and the
kernels' source) and a rank. Writing is a thread's work beside serving; what goes wrong with the cache is a line in the log.
"""

import contextlib
import logging
import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from octavo_kernels.cpu.kernels import CpuKernels, Packed
from octavo_kernels.cpu.tier import source_number
from octavo_runtime import packed_file
from octavo_runtime.model.sharded_weights import ShardedCheckpoint
from octavo_runtime.model.sharding import Shard
from octavo_runtime.model.weights import Checkpoint, WeightReader, stored_files
from octavo_runtime.packed_file import Key, OtherWriterError, PackedFile, PackedFileError

log = logging.getLogger("octavo.engine")

_KEPT = 2  # files of a model: its content, and what it had before


class Packer:
    """Weights as the kernels take them: from the file where it has them, else packed from the checkpoint's tensors."""

    def __init__(self, kernels: CpuKernels, found: PackedFile | None = None) -> None:
        self.packed: dict[str, Packed] = {}
        self.anew = 0  # weights that the file did not have
        self._kernels = kernels
        self._found = found
        self._content = None if found is None else _tensor(found)

    def __call__(self, weights: WeightReader, parts: Mapping[str, tuple[int, int]]) -> Packed:
        """The tensors `parts` (name → rows, columns), one below the other. Raises ModelError."""
        name = " ".join(parts)
        packed = self._stored(name, sum(rows for rows, _ in parts.values()), next(iter(parts.values()))[1])
        if packed is None:
            self.anew += 1
            shards = [weights.take(one, shape) for one, shape in parts.items()]
            packed = self._kernels.pack(torch.cat(shards) if len(shards) > 1 else shards[0])
        else:
            for one in parts:
                weights.skip(one)
        self.packed[name] = packed
        return packed

    def _stored(self, name: str, n: int, k: int) -> Packed | None:
        part = self._found.parts.get(name) if self._found is not None else None
        if part is None or (part.n, part.k, part.size_bytes) != (n, k, self._kernels.packed_bytes(n, k)):
            return None
        assert self._content is not None
        return self._kernels.packed(self._content[part.offset : part.offset + part.size_bytes], n, k)


class WeightsCache:
    """One model's file in `folder`; without a folder everything is packed and nothing kept. `moved`: called while it is read."""

    def __init__(self, folder: Path | None, checkpoint: Checkpoint, moved: Callable[[], None] = lambda: None) -> None:
        self._moved = moved
        self._folder = folder
        self._checkpoint = checkpoint
        self._shard = checkpoint.shard if isinstance(checkpoint, ShardedCheckpoint) else Shard(0, 1)
        self._packer: Packer | None = None
        self._key: Key = {}

    def packer(self, kernels: CpuKernels) -> Packer:
        """For the kernels that will compute."""
        if self._folder is None:
            return Packer(kernels)
        self._key = self._key_for(kernels)
        self._packer = Packer(kernels, self._found())
        return self._packer

    def keep(self) -> threading.Thread | None:
        """Once all weights are there: begin to write the file where it lacked any; None where nothing is to write."""
        if self._packer is None or not self._packer.anew:
            return None
        contents = {
            name: (weight.n, weight.k, weight.storage.numpy().data) for name, weight in self._packer.packed.items()
        }
        thread = threading.Thread(target=self._write, args=(contents,), name="weights-cache", daemon=True)
        thread.start()
        return thread

    @property
    def path(self) -> Path:
        assert self._folder is not None
        return self._folder / f"{self._name}-{self._key['model'][:16]}{packed_file.SUFFIX}"

    @property
    def _name(self) -> str:
        """What versions of a model have in common."""
        name = re.sub(r"[^A-Za-z0-9._-]", "_", self._checkpoint.path.resolve().name)[:64]
        return f"{name}-{self._shard.rank}of{self._shard.size}"

    def _found(self) -> PackedFile | None:
        started_s = time.monotonic()
        try:
            found = packed_file.open_packed(self.path, self._key)
            found.verify(self._moved)
        except PackedFileError as error:
            log.info("weights cache: packing anew, for %s: %s", self.path, error)
            return None
        took_s = time.monotonic() - started_s
        log.info("weights cache: mapped %s, %d MiB, checked in %.2f s", self.path, len(found.memory) >> 20, took_s)
        return found

    def _write(self, contents: Mapping[str, tuple[int, int, memoryview]]) -> None:
        started_s = time.monotonic()
        try:
            size_bytes = packed_file.write_packed(self.path, self._key, contents)
        except OtherWriterError:
            log.info("weights cache: another start is writing %s", self.path)
        except OSError as error:
            log.warning(
                "weights cache: %s cannot be written (%s), so the next start packs again: free space there, or set "
                "--weights-cache to another folder or none",
                self.path,
                error.strerror,
            )
        else:
            took_s = time.monotonic() - started_s
            log.info("weights cache: wrote %s, %d MiB, in %.1f s", self.path, size_bytes >> 20, took_s)
            self._forget_old()

    def _forget_old(self) -> None:
        """Files of the same name whose content was another: all but the newest."""
        with contextlib.suppress(OSError):  # another start does the same
            versions = self.path.parent.glob(f"{self._name}-*{packed_file.SUFFIX}")
            for old in sorted(versions, key=lambda path: path.stat().st_mtime_ns, reverse=True)[_KEPT:]:
                old.unlink()
                old.with_suffix(".lock").unlink(missing_ok=True)

    def _key_for(self, kernels: CpuKernels) -> Key:
        # The fingerprint samples, and a file that is edited between its spots has another time.
        times = [file.stat().st_mtime_ns for file in sorted(stored_files(self._checkpoint.path))]
        return {
            "model": self._checkpoint.fingerprint().hex(),
            "time of the files": " ".join(map(str, times)),
            "scheme": f"cpu {kernels.tier} {source_number():08x}",
            "rank": f"{self._shard.rank} of {self._shard.size}",
        }


def _tensor(file: PackedFile) -> Tensor:
    """The whole file as uint8. Nobody writes to weights, and the mapping would not let them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given buffer is not writable", UserWarning)
        return torch.frombuffer(file.memory, dtype=torch.uint8)
