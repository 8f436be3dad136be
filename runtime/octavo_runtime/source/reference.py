"""What a model's source may be called: `hf://org/repo[/file.gguf][@revision]` on a hub, else a path or `file:///path`.

`pvc://` and `oci://` of an InferenceService are mounted, and a path here.
"""

import dataclasses
import os
import re
from pathlib import Path
from urllib.parse import unquote, urlparse

HUB_SCHEME = "hf://"
FORMS = "give a GGUF file or a model folder as a path or file:///path, or hf://org/repo[/file.gguf][@revision]"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 ._+-]{0,199}")
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/+-]{0,199}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class SourceError(Exception):
    """The model's files cannot be had; the text names the source, what is wrong and what would do.

    SourceError            the same again does not help
    └── UnreachableError   the same again may: a connection that was refused or cut, a server that is busy
    """


class UnreachableError(SourceError):
    """The hub does not answer as it should just now."""


@dataclasses.dataclass(frozen=True)
class HubReference:
    """A model on a hub: a repository's safetensors, or one GGUF file of it. `revision` is a branch, a tag or a commit."""

    repository: str
    file: str | None = None
    revision: str = "main"

    @property
    def pinned(self) -> bool:
        """Whether the revision is a commit, which always means the same files."""
        return _COMMIT.fullmatch(self.revision) is not None

    @property
    def name(self) -> str:
        """What a model is called that nobody gave a name."""
        return (self.file or self.repository).rpartition("/")[2].removesuffix(".gguf")

    def __str__(self) -> str:
        return f"{HUB_SCHEME}{self.repository}{f'/{self.file}' if self.file else ''}@{self.revision}"


def hub_reference(source: str) -> HubReference | None:
    """None for what lies on this machine. Raises SourceError for a name that cannot be."""
    if not source.startswith(HUB_SCHEME):
        return None
    path, _, revision = source.removeprefix(HUB_SCHEME).partition("@")
    names = path.split("/")
    file = "/".join(names[2:])
    good = len(names) >= 2 and all(_NAME.fullmatch(name) for name in names[:2])
    if not good or (len(names) > 2 and not (file.endswith(".gguf") and all(map(_PART.fullmatch, names[2:])))):
        raise SourceError(f"the model {source} is no name on a hub: give hf://org/repo[/file.gguf][@revision]")
    if "@" in source and (not _REVISION.fullmatch(revision) or ".." in revision):
        raise SourceError(f"the model {source}: '{revision}' is no revision: give a branch, a tag or a commit")
    return HubReference("/".join(names[:2]), file or None, revision or "main")


def local_path(source: str) -> Path:
    """The file or folder that a path or `file:///path` names."""
    return Path(unquote(urlparse(source).path)) if source.startswith("file://") else Path(source)


def check_source(source: str) -> None:
    """Raises SourceError for what neither a hub nor this machine can have; other schemes would be read as strange paths."""
    if not source:
        raise SourceError(f"the model is empty: {FORMS}")
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*)://", source)
    if scheme is None or hub_reference(source) is not None:
        return
    if scheme[1] != "file":
        raise SourceError(f"the model {source}: {scheme[1]}:// is not supported: {FORMS}")
    url = urlparse(source)
    if url.netloc:
        raise SourceError(f"the model {source} names the host '{url.netloc}': {FORMS}")
    if not url.path:
        raise SourceError(f"the model {source} has no path: {FORMS}")


def unreadable(error: OSError) -> str:
    """A model's file that cannot be read, for people."""
    return f"{error.filename} cannot be read ({error.strerror}): put it right, or let user {os.geteuid()} read it"
