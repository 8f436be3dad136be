"""The two programs that can build: docker where an engine answers, else buildah with a store of its own."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.cluster.images import commands
from tests.cluster.images.errors import ImagesError
from tests.cluster.images.registry import is_loopback
from tests.cluster.onenode.layout import cache_folder
from tests.cluster.onenode.machine import search_path

#: A piece of what docker or buildah print → what is being done.
PHASES: Mapping[str, str] = {
    "/torch.txt": "torch, gigabytes: some minutes the first time",
    "/runtime.txt": "the runtime's dependencies",
    "/operator.txt": "the operator's dependencies",
    "/model.txt": "the model",
    "/build.txt": "the tools of the build",
    "hatchling build": "our code",
    "COMMIT": "committing",
}


@dataclass(frozen=True)
class Order:
    """One build: `target` of the Dockerfile in `context` under the name `reference`, with the image of the stage `tools`."""

    target: str
    reference: str
    context: Path
    options: Sequence[str]
    tools: str


class Engine(Protocol):
    def has(self, reference: str) -> bool:
        """Whether the local store holds the image."""

    def build(self, title: str, order: Order) -> None:
        """Builds one image into the local store."""

    def push(self, title: str, reference: str) -> None:
        """Pushes an image of the local store to the registry that its name states."""

    def add_base(self, archive: Path, reference: str) -> None:
        """Makes an image of one layer out of a root file system."""

    def adopt_base(self, reference: str) -> None:
        """Makes a local image of the user's own usable here, if there is one by that name."""

    def clean(self, current: Sequence[str]) -> None:
        """Removes older images of ours, and what killed builds left."""


class Docker:
    """An engine of the user's. Only our own tags are ever removed: the rest of its store is not ours to judge."""

    def has(self, reference: str) -> bool:
        return commands.output("docker", "image", "inspect", "--format={{.Id}}", reference) is not None

    def build(self, title: str, order: Order) -> None:
        command = [
            "docker",
            "build",
            "--progress=plain",
            f"--target={order.target}",
            f"--tag={order.reference}",
            *order.options,
        ]
        commands.run(title, [*command, order.context], PHASES, {"DOCKER_BUILDKIT": "1"})

    def push(self, title: str, reference: str) -> None:
        commands.run(title, ["docker", "push", reference], {})

    def add_base(self, archive: Path, reference: str) -> None:
        commands.run("storing the base image", ["docker", "import", archive, reference], {})

    def adopt_base(self, reference: str) -> None:
        """Nothing to do: the store is the user's."""

    def clean(self, current: Sequence[str]) -> None:
        names = {_repository(reference) for reference in current}
        listed = commands.output("docker", "images", "--format={{.Repository}}:{{.Tag}}") or ""
        for reference in listed.splitlines():
            if _repository(reference) in names and reference not in current:
                commands.output("docker", "rmi", reference)


class Buildah:
    """buildah, with its store in our cache folder: all in it is ours, so all that is not needed can go."""

    def __init__(self) -> None:
        root = ["--root", str(cache_folder() / "storage")]
        # Mount counts must not outlive a reboot; without root the default is such a place already.
        self._buildah = ["buildah", *root, *(["--runroot", "/run/octavo-images"] if os.geteuid() == 0 else [])]

    def has(self, reference: str) -> bool:
        return (
            commands.output(*self._buildah, "inspect", "--type=image", "--format={{.FromImageID}}", reference)
            is not None
        )

    def build(self, title: str, order: Order) -> None:
        kind = ["--isolation=chroot", "--layers", "--format=oci"]
        command = [
            *self._buildah,
            "build",
            *kind,
            f"--target={order.target}",
            f"--tag={order.reference}",
            *order.options,
        ]
        # buildah 1.28 does not mount a stage that came from its cache; an image by that name it does.
        context = [] if order.target == "tools" else [f"--build-context=tools=docker-image://{order.tools}"]
        commands.run(title, [*command, *context, order.context], PHASES)

    def push(self, title: str, reference: str) -> None:
        packing = ["--format=oci", "--compression-format=zstd", "--compression-level=1"]
        transport = ["--tls-verify=false"] if is_loopback(reference) else []
        commands.run(title, [*self._buildah, "push", *packing, *transport, reference, f"docker://{reference}"], {})

    def add_base(self, archive: Path, reference: str) -> None:
        container = commands.output(*self._buildah, "from", "scratch")
        if container is None:
            raise ImagesError("`buildah from scratch` failed: run it by hand to see why")
        commands.run("unpacking the base image", [*self._buildah, "add", container, archive, "/"], {})
        commands.run(
            "storing the base image", [*self._buildah, "commit", "--rm", "--format=oci", container, reference], {}
        )

    def adopt_base(self, reference: str) -> None:
        """Copies the image from buildah's ordinary store."""
        if commands.output("buildah", "inspect", "--type=image", reference) is None:
            return
        store = commands.output(
            "buildah", "info", "--format={{.store.GraphDriverName}}@{{.store.GraphRoot}}+{{.store.RunRoot}}"
        )
        source = f"containers-storage:[{store}]{reference}"
        commands.run("copying the base image", [*self._buildah, "pull", source], {})

    def clean(self, current: Sequence[str]) -> None:
        commands.output(*self._buildah, "rm", "--all")
        names = {_repository(reference).rpartition("/")[2] for reference in current}
        listed = commands.output(*self._buildah, "images", "--noheading", "--format={{.Name}}:{{.Tag}}") or ""
        for reference in listed.splitlines():
            if _repository(reference).rpartition("/")[2] in names and reference not in current:
                commands.output(*self._buildah, "rmi", reference)
        commands.output(*self._buildah, "rmi", "--prune")


def _repository(reference: str) -> str:
    return reference.rpartition(":")[0]


def choose() -> Engine:
    """Docker if it answers, else buildah; `ImagesError` without either."""
    if commands.output("docker", "info", "--format={{.ServerVersion}}"):
        return Docker()
    if shutil.which("buildah", path=search_path()):
        return Buildah()
    raise ImagesError(
        "no docker engine answers and buildah is not installed: `apt-get install buildah`, or start docker"
    )
