"""Third-party controllers that tests run against as they are, built from the pinned Go modules of `go/` when a test first asks.

Unlike the programs of `binaries` the cluster needs none of them: each belongs to a fixture. Their custom resource definitions are
read from the module cache, where the Go command puts a module's whole tree; nothing of them is copied into this project.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from tests.cluster.onenode.binaries import GO_MODULES, Module, Program, build, build_environ
from tests.cluster.onenode.errors import CannotRunHereError, OneNodeError
from tests.cluster.onenode.progress import Ticker

ARGO_CD = Module("argocd", "3.1.16")
INFERENCE_EXTENSION = Module("inference-extension", "1.2.0")
KSTATUS = Module("kstatus", "0.37.2")
KEDA = Module("keda", "2.21.0")
LWS = Module("lws", "0.7.0")
KWOK = Module("kwok", "0.8.0")
PROMETHEUS_ADAPTER = Module("prometheus-adapter", "0.12.0")
# Only read for its definitions: nothing of it runs.
PROMETHEUS_OPERATOR = Module("prometheus-operator", "0.85.0")

PROGRAMS = {
    program.name: program
    for program in (
        Program("argocd-health", ARGO_CD, ".", "5 s"),
        Program("epp", INFERENCE_EXTENSION, "sigs.k8s.io/gateway-api-inference-extension/cmd/epp", "3 min"),
        Program("keda-adapter", KEDA, "github.com/kedacore/keda/v2/cmd/adapter", "2 min"),
        Program("keda-operator", KEDA, "github.com/kedacore/keda/v2/cmd/operator", "6 min"),
        Program("kstatus", KSTATUS, ".", "10 s"),
        Program("kwok", KWOK, "sigs.k8s.io/kwok/cmd/kwok", "1 min"),
        Program("lws", LWS, "sigs.k8s.io/lws/cmd", "3 min"),
        Program("prometheus-adapter", PROMETHEUS_ADAPTER, "sigs.k8s.io/prometheus-adapter/cmd/adapter", "3 min"),
    )
}


def ensure(name: str) -> Path:
    """The program, built where it is not there yet, with its progress printed."""
    program = PROGRAMS[name]
    if not program.path().exists():
        _check_go()
        with Ticker(f"building {name} {program.module.version} (≈{program.first_time} the first time)", sys.stdout):
            build(program)
    return program.path()


def source(module: Module, path: str) -> Path:
    """The folder of the Go module `path`, which `module` requires, in the module cache: downloaded where it is not there yet."""
    _check_go()
    done = subprocess.run(
        ["go", "mod", "download", "-json", path],
        cwd=GO_MODULES / module.folder,
        env=build_environ(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise OneNodeError(f"`go mod download {path}` failed: {done.stderr.strip() or done.stdout.strip()}")
    return Path(json.loads(done.stdout)["Dir"])


def _check_go() -> None:
    if shutil.which("go") is None:
        raise CannotRunHereError("Go, which builds the controllers that this test runs, is not installed (Go 1.26)")
