"""The base image: what `BASE` names, else a local Debian made by debootstrap from the machine's own mirror, else a public one."""

import hashlib
import os
import platform
import re
import shutil
from pathlib import Path

from tests.cluster.images import commands
from tests.cluster.images.engines import Docker, Engine
from tests.cluster.images.errors import ImagesError
from tests.cluster.images.inputs import REPOSITORY, BuildSettings
from tests.cluster.onenode.layout import cache_folder
from tests.cluster.onenode.machine import search_path

SUITE = "bookworm"
PACKAGES = ("ca-certificates", "libgomp1", "python3", "python3-venv")
_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: Device files are the container runtime's; the rest is of no use in a read-only image.
_LEFT_OUT = (
    "./dev/*",
    "./proc/*",
    "./sys/*",
    "./usr/share/locale/*",
    "./usr/share/man/*",
    "./var/cache/apt/*",
    "./var/lib/apt/lists/*",
    "./var/log/*",
)
_RECIPE = hashlib.sha256(repr((SUITE, PACKAGES, _LEFT_OUT)).encode()).hexdigest()[:12]
LOCAL = f"localhost/octavo-base:{SUITE}-{_RECIPE}"
_PHASES = {
    "I: Retrieving": "downloading packages",
    "I: Extracting": "extracting packages",
    "I: Unpacking": "unpacking packages",
    "I: Configuring": "configuring packages",
}


def resolve(engine: Engine, settings: BuildSettings) -> str:
    """The image that `BASE` gives the Dockerfile; makes the local one where none is named and it can be made.

    With docker the Dockerfile's public base is the default, and the local one only once `make base` has made it.
    """
    if settings.base:
        engine.adopt_base(settings.base)
        return settings.base
    if engine.has(LOCAL) or (not isinstance(engine, Docker) and _obstacle() is None):
        return make(engine)
    return public_base()


def make(engine: Engine) -> str:
    """Makes the local base image where the engine does not have it, and returns its name."""
    if not engine.has(LOCAL):
        engine.add_base(_archive(), LOCAL)
    return LOCAL


def public_base() -> str:
    found = re.search(r"^ARG BASE=(\S+)$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    assert found, "the Dockerfile names its default base"
    return found[1]


def _archive() -> Path:
    """The root file system as a compressed tar archive, from the cache where it is there."""
    archive = cache_folder() / f"base-{SUITE}-{_RECIPE}.tar.gz"
    if archive.exists():
        return archive
    if obstacle := _obstacle():
        raise ImagesError(f"no local base image can be made: {obstacle}; name a base image with BASE=")
    archive.parent.mkdir(parents=True, exist_ok=True)
    work = archive.parent / "base-work"
    # A killed run's, if any: the build lock is held.
    shutil.rmtree(work, ignore_errors=True)
    root, packed = work / "root", work / "packed"
    _bootstrap(root)
    left_out = [f"--exclude={pattern}" for pattern in _LEFT_OUT]
    tar = ["tar", "--create", "--gzip", "--numeric-owner", f"--directory={root}", *left_out, f"--file={packed}", "."]
    commands.run("packing the base image", tar, {})
    packed.rename(archive)
    shutil.rmtree(work)
    return archive


def _obstacle() -> str | None:
    """Why debootstrap cannot make a base image here; None if it can."""
    if os.geteuid() != 0:
        return "debootstrap needs root"
    if shutil.which("debootstrap", path=search_path()) is None:
        return "debootstrap is not installed"
    if not _KEYRING.exists():
        return f"{_KEYRING} is not there to check Debian's signature (package debian-archive-keyring)"
    return None if _mirror() else "apt has no mirror of Debian set up"


def _mirror() -> str | None:
    """The mirror of Debian's main component that this machine's apt uses for its own release; None on other systems."""
    try:
        system = platform.freedesktop_os_release()
    except OSError:
        return None
    if system["ID"] != "debian":
        return None
    listed = commands.output(
        "apt-get", "indextargets", "--format", "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Identifier: Packages"
    )
    fields = [line.split() for line in (listed or "").splitlines()]
    wanted = [system.get("VERSION_CODENAME"), "main"]
    return next((uri for release, component, uri in fields if [release, component] == wanted), None)


def _bootstrap(root: Path) -> None:
    mirror = _mirror()
    assert mirror is not None, "_obstacle has looked"
    root.mkdir(parents=True)
    # In a mount namespace of its own, so that what it mounts below `root` goes when it is killed.
    command = ["unshare", "--mount", "debootstrap", "--variant=minbase", f"--keyring={_KEYRING}"]
    commands.run(
        "making the base image",
        [*command, f"--include={','.join(PACKAGES)}", SUITE, root, mirror],
        _PHASES,
        {"PATH": search_path()},
    )
