"""Files of a commit into a folder, several at once, each from where an earlier attempt was cut."""

import hashlib
import logging
import os
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from octavo_runtime.source.hub import CHUNK_BYTES, Hub, HubFile
from octavo_runtime.source.reference import HubReference, SourceError, UnreachableError

log = logging.getLogger("octavo")

AT_ONCE = 4  # files: one connection seldom fills a fast line
PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # before a file is tried again; after a piece has come, from the first on
_PART = ".part"


class Transfer:
    """`moved` is told the bytes that are there after each piece, by one thread at a time."""

    def __init__(
        self, hub: Hub, reference: HubReference, commit: str, folder: Path, moved: Callable[[int], None]
    ) -> None:
        self._hub = hub
        self._reference = reference
        self._commit = commit
        self._folder = folder
        self._moved = moved
        self._there = sum(entry.stat().st_size for entry in os.scandir(folder) if entry.is_file())
        self._lock = threading.Lock()
        self._stopping = threading.Event()

    def run(self, files: Sequence[HubFile], pauses_s: Sequence[float] = PAUSES_S) -> None:
        """Bring them all. Raises SourceError, and OSError where the folder cannot be written.

        The threads are daemons, so that a signal need not wait for what they wait for.
        """
        waiting: queue.SimpleQueue[HubFile] = queue.SimpleQueue()
        ended: queue.SimpleQueue[Exception | None] = queue.SimpleQueue()
        for file in sorted(files, key=lambda file: file.size_bytes):  # small ones first: what is wrong shows early
            waiting.put(file)

        given = waiting, ended, pauses_s
        workers = [
            threading.Thread(target=self._work, args=given, name="download", daemon=True)
            for _ in range(min(AT_ONCE, len(files)))
        ]
        for worker in workers:
            worker.start()
        try:
            for _ in workers:
                if (error := ended.get()) is not None:
                    raise error
        finally:
            self._stopping.set()

    def _work(
        self,
        waiting: "queue.SimpleQueue[HubFile]",
        ended: "queue.SimpleQueue[Exception | None]",
        pauses_s: Sequence[float],
    ) -> None:
        try:
            while not self._stopping.is_set():
                self._bring(waiting.get_nowait(), pauses_s)
        except queue.Empty:
            ended.put(None)
        except (SourceError, OSError) as error:
            ended.put(error)
        except Exception as error:  # the thread's outermost frame: whoever waits has to know
            log.exception("a download failed")
            ended.put(error)
        else:
            ended.put(None)

    def _bring(self, file: HubFile, pauses_s: Sequence[float]) -> None:
        """Until the file is whole, or nothing of it has come for too many attempts."""
        whole = self._folder / file.name.rpartition("/")[2]
        part = whole.with_name(whole.name + _PART)
        failures = spoiled = 0
        while not whole.exists() and not self._stopping.is_set():
            before = _size(part)
            try:
                self._append(file, part, before)
            except UnreachableError as error:
                failures = 0 if _size(part) > before else failures + 1
                if failures > len(pauses_s):
                    raise
                log.warning("%s: cut after %d of %d bytes; trying again", error, _size(part), file.size_bytes)
                self._stopping.wait(pauses_s[max(0, failures - 1)])
                continue
            if self._is_whole(file, part):
                os.replace(part, whole)
            elif (spoiled := spoiled + 1) > 1:
                raise SourceError(
                    f"{self._reference}: {file.name} is not what the hub says that it is, twice: try again later"
                )

    def _append(self, file: HubFile, part: Path, have: int) -> None:
        if have >= file.size_bytes:
            part.touch()
            return
        with (
            self._hub.stream(self._reference, self._commit, file.name, have) as (begin, pieces),
            part.open("ab") as out,
        ):
            if begin != have:
                out.truncate(begin)
                self._count(begin - have)
            left = file.size_bytes - begin
            for piece in pieces:
                if self._stopping.is_set():
                    return
                out.write(piece)
                left -= len(piece)
                self._count(len(piece))
            out.flush()
            os.fsync(out.fileno())
        if left > 0:  # a server that ends early without saying so
            raise UnreachableError(f"{self._reference}: {file.name} ended {left} bytes early")

    def _is_whole(self, file: HubFile, part: Path) -> bool:
        """By its hash; one that is not is deleted."""
        size_bytes = _size(part)
        if size_bytes == file.size_bytes and self._hash(file, part):
            return True
        if not self._stopping.is_set():
            log.warning("%s: %s is damaged: fetching it again", self._reference, file.name)
            part.unlink()
            self._count(-size_bytes)
        return False

    def _hash(self, file: HubFile, part: Path) -> bool:
        if file.sha256 is not None:
            digest, wanted = hashlib.sha256(), file.sha256
        elif file.git_sha1 is not None:
            digest, wanted = hashlib.sha1(b"blob %d\0" % file.size_bytes, usedforsecurity=False), file.git_sha1
        else:
            return True
        with part.open("rb") as content:
            while piece := content.read(CHUNK_BYTES):
                digest.update(piece)
                self._count(0)
                if self._stopping.is_set():
                    return False
        return digest.hexdigest() == wanted

    def _count(self, more: int) -> None:
        with self._lock:
            self._there += more
            self._moved(self._there)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
