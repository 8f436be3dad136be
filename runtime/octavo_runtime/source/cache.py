"""Models of a hub in a folder that lasts, whoever shares it.

    <cache>/<org>--<name>/<commit>/            the files; it is there when all of them are
    <cache>/<org>--<name>/<commit>.partial/    while they come; `<file>.part` is not whole yet
    <cache>/<org>--<name>/<commit>.lock        held by who downloads
    <cache>/<org>--<name>/refs/<revision>      the commit that a branch or tag meant last

One GGUF file of a repository has `<commit>--<file>` for `<commit>`. Nothing is ever deleted here.
"""

import contextlib
import dataclasses
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

from octavo_runtime.source.layout import gguf_files
from octavo_runtime.source.reference import HubReference, SourceError

LOOK_EVERY_S = 1.0


@dataclasses.dataclass(frozen=True)
class Fetched:
    """Where a model of a hub lies on this machine, and which commit it is."""

    path: Path
    commit: str


class CachedModel:
    """The places of one model in the cache."""

    def __init__(self, cache: Path, reference: HubReference) -> None:
        self._reference = reference
        self.home = cache / reference.repository.replace("/", "--")

    def find(self, commit: str | None) -> Fetched | None:
        """The model of this commit, if all of it is here."""
        if commit is None:
            return None
        folder, file = self._folder(commit), self._reference.file
        path = folder / file.rpartition("/")[2] if file else folder
        if not path.exists():
            return None
        if file is None and len(only := gguf_files(os.listdir(folder))) == 1:  # a repository of nothing else
            path = folder / only[0]
        return Fetched(path, commit)

    def last_meant(self) -> str | None:
        """The commit that the reference's revision was when it was asked for last."""
        try:
            return self._ref.read_text().strip()
        except OSError:
            return None

    def remember(self, commit: str) -> None:
        """… for `last_meant`; a cache that cannot be written does without."""
        with contextlib.suppress(OSError):
            self._ref.parent.mkdir(exist_ok=True)
            new = self._ref.with_name(f".{os.getpid()}.new")
            new.write_text(commit)
            os.replace(new, self._ref)

    def partial(self, commit: str) -> Path:
        """Where its files come first; the folder is there."""
        path = self._partial(commit)
        path.mkdir(parents=True, exist_ok=True)
        return path

    def complete(self, commit: str) -> Fetched:
        """All files have come. Raises OSError."""
        try:
            os.replace(self._partial(commit), self._folder(commit))
        except OSError:
            if (found := self.find(commit)) is not None:  # where the lock is none, somebody else was first
                return found
            raise
        found = self.find(commit)
        assert found is not None
        return found

    def there_bytes(self, commit: str) -> int:
        """What of it has come so far."""
        try:
            return sum(entry.stat().st_size for entry in os.scandir(self._partial(commit)) if entry.is_file())
        except FileNotFoundError:  # not begun, or just complete
            return 0

    @contextlib.contextmanager
    def lock(self, commit: str, others: Callable[[int], None]) -> Iterator[None]:
        """One process at a time; while another has it, `others` is told of what that one has got, when it is more."""
        self.home.mkdir(parents=True, exist_ok=True)
        path = self._folder(commit).with_name(f"{self._folder(commit).name}.lock")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        seen_bytes = -1
        try:
            while not _locked(descriptor):
                if (now_bytes := self.there_bytes(commit)) != seen_bytes:
                    seen_bytes = now_bytes
                    others(now_bytes)
                time.sleep(LOOK_EVERY_S)
            yield
        finally:
            os.close(descriptor)

    def check_room(self, lacking_bytes: int) -> None:
        """Raises SourceError where so much more does not fit."""
        free_bytes = shutil.disk_usage(self.home).free
        if lacking_bytes > free_bytes:
            raise SourceError(self._no_room(f"{amount(lacking_bytes)} more are needed, {amount(free_bytes)} are free"))

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """A folder that cannot be written is the user's to put right. Raises SourceError for an OSError."""
        try:
            yield
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise SourceError(self._no_room(str(error.strerror))) from error
            raise SourceError(
                f"--model-cache: {error.filename or self.home} cannot be used ({error.strerror or error}): give a folder that "
                f"user {os.geteuid()} can write to"
            ) from error

    def _no_room(self, why: str) -> str:
        return (
            f"{self._reference} does not fit into {self.home}: {why}; give --model-cache a larger volume (spec.model.cache of an "
            "InferenceService), or delete models from it"
        )

    @property
    def _ref(self) -> Path:
        return self.home / "refs" / quote(self._reference.revision, safe="")

    def _folder(self, commit: str) -> Path:
        file = self._reference.file
        return self.home / (f"{commit}--{file.replace('/', '--')}" if file else commit)

    def _partial(self, commit: str) -> Path:
        return self._folder(commit).with_name(f"{self._folder(commit).name}.partial")


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def amount(count: int) -> str:
    """Bytes for people."""
    return f"{count / 2**30:.2f} GiB" if count >= 10 << 20 else f"{count / 2**20:.2f} MiB"
