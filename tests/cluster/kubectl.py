"""kubectl and helm against the cluster of `access`, as small typed calls, and waiting with a deadline."""

import json
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tests.cluster.access import Access
from tests.cluster.onenode.machine import child_environ

Object = dict[str, Any]
T = TypeVar("T")


class CommandError(Exception):
    """kubectl or helm failed; `stderr` is what it said."""

    def __init__(self, command: str, code: int, stderr: str) -> None:
        super().__init__(f"`{command}` failed ({code}): {stderr.strip()}")
        self.stderr = stderr


class Kubectl:
    """kubectl bound to one cluster and, where given, one namespace."""

    def __init__(self, access: Access, namespace: str | None = None) -> None:
        self.access = access
        self.namespace = namespace

    def within(self, namespace: str) -> "Kubectl":
        return Kubectl(self.access, namespace)

    def words(self, *words: str) -> list[str]:
        """The whole command line, for those who start it themselves (`port-forward`, `exec`)."""
        bound = [f"--kubeconfig={self.access.kubeconfig}", f"--context={self.access.context}"]
        if self.namespace is not None:
            bound.append(f"--namespace={self.namespace}")
        return [str(self.access.kubectl), *bound, *words]

    def run(self, *words: str, stdin: str | None = None, timeout_s: float = 60.0) -> str:
        """Runs kubectl and returns its output; raises `CommandError` where it fails."""
        return run_command(self.words(*words), stdin=stdin, timeout_s=timeout_s)

    def apply(self, *objects: Mapping[str, Any], server_side: bool = False) -> None:
        """Applies the objects as a user would, client-side unless told otherwise."""
        manifest = "\n---\n".join(json.dumps(item) for item in objects)
        self.run("apply", "--filename=-", *(["--server-side"] if server_side else []), stdin=manifest)

    def get(self, kind: str, name: str) -> Object | None:
        """The object, or None where it does not exist."""
        text = self.run("get", kind, name, "--output=json", "--ignore-not-found")
        return json.loads(text) if text.strip() else None

    def list(self, kind: str, selector: str = "") -> list[Object]:
        text = self.run("get", kind, "--output=json", *([f"--selector={selector}"] if selector else []))
        items: list[Object] = json.loads(text)["items"]
        return items

    def patch(self, kind: str, name: str, patch: Mapping[str, Any], *, subresource: str = "") -> None:
        """A JSON merge patch."""
        words = ["patch", kind, name, "--type=merge", f"--patch={json.dumps(patch)}"]
        self.run(*words, *([f"--subresource={subresource}"] if subresource else []))

    def delete(self, kind: str, name: str, *, wait: bool = True, timeout_s: float = 90.0) -> None:
        self.run("delete", kind, name, "--ignore-not-found", f"--wait={str(wait).lower()}", timeout_s=timeout_s)


def run_command(
    words: Sequence[str | Path], *, stdin: str | None = None, timeout_s: float = 60.0, cwd: Path | None = None
) -> str:
    command = [str(word) for word in words]
    done = subprocess.run(
        command,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        cwd=cwd,
        env=child_environ(),
    )
    if done.returncode != 0:
        raise CommandError(" ".join([Path(command[0]).name, *command[1:]]), done.returncode, done.stderr or done.stdout)
    return done.stdout


def wait_for(check: Callable[[], T | None], timeout_s: float, what: str, *, interval_s: float = 0.25) -> T:
    """The first result of `check` that is true, as an empty list is not; `TimeoutError` names `what` when time is over."""
    deadline_s = time.monotonic() + timeout_s
    while True:
        result = check()
        if result:
            return result
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"waited {timeout_s:.0f} s for {what}")
        time.sleep(interval_s)


def condition(item: Object | None, kind: str) -> Object:
    """The object's condition of that type; empty where there is none."""
    # A CRD that was just applied may have null here.
    conditions = (item or {}).get("status", {}).get("conditions") or []
    return next((entry for entry in conditions if entry["type"] == kind), {})


def wait_until_served(kubectl: Kubectl, definition: str, timeout_s: float = 30.0) -> None:
    """Until the API server serves what a CRD that was just applied defines."""

    def is_established() -> bool:
        return bool(condition(kubectl.get("crd", definition), "Established").get("status") == "True")

    wait_for(is_established, timeout_s, f"{definition} to be served")
