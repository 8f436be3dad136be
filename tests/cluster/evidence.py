"""What is kept when a test or the demo fails: pod logs, events, descriptions, the components' logs."""

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.kubectl import CommandError, Kubectl
from tests.cluster.onenode import layout

ARTIFACTS = Path(__file__).parents[2] / ".artifacts"
DESCRIBED = "inferenceservices.serving.octavo.dev,deployments,replicasets,services,pods,jobs"


def keep(kubectl: Kubectl, name: str, namespaces: Iterable[str]) -> Path:
    """Writes everything about the namespaces to `.artifacts/<name>/`, in place of what an earlier run kept there."""
    folder = ARTIFACTS / re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:120]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for namespace in namespaces:
        _keep_namespace(kubectl.within(namespace), folder / namespace)
    _write(folder / "nodes.txt", kubectl, "describe", "nodes")
    if not kubectl.access.is_foreign:
        for log in layout.LOGS.glob("*.log"):
            shutil.copy(log, folder / log.name)
    return folder


def _keep_namespace(kubectl: Kubectl, folder: Path) -> None:
    folder.mkdir()
    _write(folder / "objects.yaml", kubectl, "get", DESCRIBED, "--output=yaml")
    _write(folder / "describe.txt", kubectl, "describe", DESCRIBED)
    _write(folder / "events.txt", kubectl, "get", "events", "--sort-by=.lastTimestamp")
    for pod in _pods(kubectl):
        logs = ("logs", pod, "--all-containers", "--prefix", "--timestamps")
        _write(folder / f"{pod}.log", kubectl, *logs)
        _write(folder / f"{pod}.previous.log", kubectl, *logs, "--previous", optional=True)


def _pods(kubectl: Kubectl) -> list[str]:
    try:
        return [pod["metadata"]["name"] for pod in kubectl.list("pods")]
    except (CommandError, subprocess.TimeoutExpired):
        return []


def _write(file: Path, kubectl: Kubectl, *words: str, optional: bool = False) -> None:
    """Evidence is taken of what is broken: what cannot be read is noted in its place, never raised."""
    try:
        text = kubectl.run(*words, timeout_s=20.0)
    except (CommandError, subprocess.TimeoutExpired) as error:
        if optional:
            return
        text = f"{error}\n"
    file.write_text(text)
