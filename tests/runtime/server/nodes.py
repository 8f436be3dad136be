"""Two nodes of one service on this machine: a network namespace each, joined by a pair of virtual Ethernet devices."""

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ADDRESSES = ("192.0.2.1", "192.0.2.2")  # of RFC 5737, for examples
CLIENT = """
import json, sys, urllib.error, urllib.request
url, body = sys.argv[1], sys.argv[2]
request = urllib.request.Request(url, body.encode() or None, {"Content-Type": "application/json"})
try:
    answer = urllib.request.urlopen(request, timeout=60)
except urllib.error.HTTPError as error:
    answer = error
except urllib.error.URLError as error:
    sys.exit(str(error))
print(json.dumps([answer.status, answer.read().decode()]))
"""


@dataclasses.dataclass(frozen=True)
class Node:
    """`octavo serve` in a namespace of its own."""

    namespace: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def ask(self, path: str, body: dict[str, Any] | None = None, port: int = 8000) -> "subprocess.Popen[str]":
        """A client within the namespace; its output is status and body, its exit code 1 where nobody answers."""
        url = f"http://127.0.0.1:{port}{path}"
        command = [*_within(self.namespace), sys.executable, "-S", "-c", CLIENT, url, json.dumps(body) if body else ""]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def answer(self, path: str, body: dict[str, Any] | None = None, port: int = 8000) -> tuple[int, str]:
        """Status and body; status 0 where nobody answers."""
        assert self.process.poll() is None, self.log.read_text()
        output, _ = self.ask(path, body, port).communicate(timeout=120)
        status, text = json.loads(output) if output else (0, "")
        return status, text

    def ranks(self) -> list[int]:
        """The processes of ranks that are this one's children."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [int(child) for child in children if b"engine.ranks" in Path(f"/proc/{child}/cmdline").read_bytes()]


@contextlib.contextmanager
def two_nodes(model: Path, folder: Path, *flags: str) -> Iterator[tuple[Node, Node]]:
    """As a LeaderWorkerSet of two pods would start them: the leader, then its worker."""
    with _joined_namespaces() as namespaces, contextlib.ExitStack() as stack:
        nodes: list[Node] = []
        stack.callback(_end, nodes)
        for index, namespace in enumerate(namespaces):
            environment = {
                **os.environ,
                "LWS_GROUP_SIZE": "2",
                "LWS_WORKER_INDEX": str(index),
                "LWS_LEADER_ADDRESS": ADDRESSES[0],
            }
            run_dir, log = folder / f"run-{index}", folder / f"log-{index}"
            serve = [sys.executable, "-m", "octavo_runtime", "serve", str(model), "--run-dir", str(run_dir), *flags]
            output = stack.enter_context(log.open("wb"))
            process = subprocess.Popen([*_within(namespace), *serve], stdout=output, stderr=output, env=environment)
            nodes.append(Node(namespace, process, log))
        yield nodes[0], nodes[1]


@contextlib.contextmanager
def _joined_namespaces() -> Iterator[tuple[str, str]]:
    names = f"octavo-{os.getpid()}-0", f"octavo-{os.getpid()}-1"
    try:
        for name in names:
            _ip("netns", "add", name)
        _ip("-n", names[0], "link", "add", "node", "type", "veth", "peer", "name", "node", "netns", names[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            _ip("-n", name, "address", "add", f"{address}/24", "dev", "node")
            _ip("-n", name, "link", "set", "node", "up")
            _ip("-n", name, "link", "set", "lo", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def can_have_namespaces() -> bool:
    """Whether this machine lets us make them."""
    try:
        with _joined_namespaces():
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


def _within(namespace: str) -> list[str]:
    return ["nsenter", f"--net=/run/netns/{namespace}"]


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def _end(nodes: list[Node]) -> None:
    """All at the same time: a follower stays as long as its leader."""
    for node in nodes:
        node.process.send_signal(signal.SIGTERM)
    for node in nodes:
        try:
            node.process.wait(20)
        except subprocess.TimeoutExpired:
            node.process.kill()
            node.process.wait()
