"""The programs of the cluster, built once from the pinned Go modules of `go/` into the cache folder.

Each module of `go/` has its own go.mod and go.sum; its programs lie in a folder whose name holds the version and a hash of what
defines the build, so a changed pin builds anew and an interrupted build goes on where it was. etcd, kube-apiserver and kubectl
are taken from `KUBEBUILDER_ASSETS` where that is set, as controller-runtime's envtest does.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.cluster.onenode.errors import CannotRunHereError, OneNodeError
from tests.cluster.onenode.layout import cache_folder
from tests.cluster.onenode.progress import Step

GO_MODULES = Path(__file__).parent / "go"
STRIP = "-s -w"
KUBERNETES_VERSION = "1.37.2"


def _kubernetes_link_flags() -> str:
    # Without the stamped version the programs call themselves v0.0.0, which helm and discovery take at its word.
    major, minor, _ = KUBERNETES_VERSION.split(".")
    stamps = {"gitVersion": f"v{KUBERNETES_VERSION}", "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
    packages = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
    return " ".join(
        [STRIP, *(f"-X {package}.{name}={value}" for package in packages for name, value in stamps.items())]
    )


@dataclass(frozen=True)
class Module:
    """One Go module of `go/` with what its programs are built with."""

    folder: str
    version: str
    link_flags: str = STRIP
    tags: str = ""

    def flags(self) -> list[str]:
        return ["-trimpath", "-ldflags", self.link_flags, *(["-tags", self.tags] if self.tags else [])]

    def key(self, modules: Path = GO_MODULES) -> str:
        digest = hashlib.sha256(repr((self.flags(), platform.machine())).encode())
        for file in sorted((modules / self.folder).iterdir()):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
        return f"{self.folder}-{self.version}-{digest.hexdigest()[:12]}"


@dataclass(frozen=True)
class Program:
    name: str
    module: Module
    package: str
    #: Roughly how long two quiet cores need the first time, for the progress line.
    first_time: str

    def path(self) -> Path:
        """Where the program lies, or will once built."""
        assets = os.environ.get("KUBEBUILDER_ASSETS")
        if assets and self.name in ("etcd", "kube-apiserver", "kubectl") and (Path(assets) / self.name).exists():
            return Path(assets) / self.name
        return cache_folder() / "programs" / self.module.key() / self.name


KUBERNETES = Module("kubernetes", KUBERNETES_VERSION, _kubernetes_link_flags())
ETCD = Module("etcd", "3.6.16")
CONTAINERD = Module("containerd", "2.4.2", tags="no_btrfs")
HELM = Module("helm", "3.22.0", f"{STRIP} -X helm.sh/helm/v3/internal/version.version=v3.22.0")
COREDNS = Module("coredns", "1.15.0")
PAUSE = Module("pause", "1")

_CONTAINERD_PACKAGES = "github.com/containerd/containerd/v2/cmd"
PROGRAMS = {
    program.name: program
    for program in (
        Program("kube-apiserver", KUBERNETES, "k8s.io/kubernetes/cmd/kube-apiserver", "6 min"),
        Program("etcd", ETCD, ".", "1 min"),
        Program("kubectl", KUBERNETES, "k8s.io/kubernetes/cmd/kubectl", "30 s"),
        Program("containerd", CONTAINERD, f"{_CONTAINERD_PACKAGES}/containerd", "1 min"),
        Program("containerd-shim-runc-v2", CONTAINERD, f"{_CONTAINERD_PACKAGES}/containerd-shim-runc-v2", "10 s"),
        Program("ctr", CONTAINERD, f"{_CONTAINERD_PACKAGES}/ctr", "20 s"),
        Program("kube-controller-manager", KUBERNETES, "k8s.io/kubernetes/cmd/kube-controller-manager", "2 min"),
        Program("kube-scheduler", KUBERNETES, "k8s.io/kubernetes/cmd/kube-scheduler", "15 s"),
        Program("kubelet", KUBERNETES, "k8s.io/kubernetes/cmd/kubelet", "30 s"),
        Program("kube-proxy", KUBERNETES, "k8s.io/kubernetes/cmd/kube-proxy", "15 s"),
        Program("coredns", COREDNS, ".", "1 min"),
        Program("pause", PAUSE, ".", "5 s"),
        Program("helm", HELM, "helm.sh/helm/v3/cmd/helm", "90 s"),
    )
}


def path(name: str) -> Path:
    return PROGRAMS[name].path()


def build_steps() -> list[Step]:
    """A step for each program that is not there yet."""
    missing = [program for program in PROGRAMS.values() if not program.path().exists()]
    if missing and shutil.which("go") is None:
        raise CannotRunHereError("Go, which builds its programs, is not installed (Go 1.26 or newer)")
    return [
        Step(
            f"building {program.name} {program.module.version} (≈{program.first_time} the first time)",
            partial(build, program),
        )
        for program in missing
    ]


def build(program: Program) -> None:
    """Builds the program to a temporary name and renames it, under a lock: of two callers one waits and finds it built."""
    target = program.path()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(cache_folder() / "programs" / ".lock"):
        if target.exists():
            return
        temporary = target.with_name(f".{target.name}.new")
        command = ["go", "build", *program.module.flags(), "-o", str(temporary), program.package]
        done = subprocess.run(
            command,
            cwd=GO_MODULES / program.module.folder,
            env=build_environ(),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            end = "\n".join(done.stderr.splitlines()[-15:])
            raise OneNodeError(f"building {program.name} failed; `{' '.join(command[:2])}` said:\n{end}")
        temporary.rename(target)


def build_environ() -> dict[str, str]:
    """The environment of the Go command."""
    # No cgo: the programs need no C compiler to build and no C library to run. The committed go.sum is the only truth.
    return {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly -buildvcs=false", "GOWORK": "off"}


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
