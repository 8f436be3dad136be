"""Operators from the working tree as processes of this machine, with their health and metrics in reach: for tests that kill, stop
or starve them, which nobody does to the one that serves all other tests.
"""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.access import Access
from tests.cluster.bound import bound
from tests.cluster.kubectl import wait_for

STOP_S = 60.0
# Past any proxy of this machine.
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))


@dataclass(frozen=True)
class Operator:
    """A process that `operator` started. Samples are None, and statuses 0, while it does not answer."""

    process: "subprocess.Popen[bytes]"
    health_port: int
    metrics_port: int
    log: Path

    def sample(self, name: str, **labels: str) -> float | None:
        """The sum of the samples of that name which have those labels."""
        text = self._get(self.metrics_port, "/metrics")[1]
        found = [
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(found) if text else None

    def leads(self) -> bool:
        return self.sample("octavo_operator_leader") == 1

    def writes(self) -> float:
        """Writes so far, but for the lease's."""
        return self.sample("octavo_operator_writes_total") or 0.0

    def status(self, path: str) -> int:
        """The HTTP status of `/healthz` or `/readyz`."""
        return self._get(self.health_port, path)[0]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(STOP_S)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def end(self) -> int:
        """Ends it as a kubelet would; its exit code."""
        self.process.terminate()
        return self.process.wait(STOP_S)

    def peak_bytes(self) -> int:
        """The most memory that was ever resident."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        [peak] = [line.split()[1] for line in lines if line.startswith("VmHWM:")]
        return int(peak) * 1024

    def cpu_s(self) -> float:
        """Seconds of CPU that it has used."""
        return used_cpu_s(self.process.pid)

    def _get(self, port: int, path: str) -> tuple[int, str]:
        try:
            with _DIRECT.open(f"http://127.0.0.1:{port}{path}", timeout=2.0) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()
        except OSError:
            return 0, ""


@contextmanager
def operator(access: Access, log: Path, *arguments: str, kubeconfig: Path | None = None) -> Iterator[Operator]:
    """The operator with these arguments while the block runs, and its health answering when it begins."""
    health_port, metrics_port = free_port(), free_port()
    command = [
        *(sys.executable, "-m", "octavo_operator", f"--kubeconfig={kubeconfig or access.kubeconfig}"),
        *(f"--context={access.context}", f"--health-port={health_port}", f"--metrics-port={metrics_port}", *arguments),
    ]
    with log.open("a") as output:
        process = subprocess.Popen(bound(command), stdout=output, stderr=subprocess.STDOUT)
    started = Operator(process, health_port, metrics_port, log)
    try:
        wait_for(lambda: started.status("/healthz") == 200 or process.poll() is not None, 180, "the operator to answer")
        assert process.poll() is None, f"the operator ended with {process.returncode}: {log.read_text()[-2000:]}"
        yield started
    finally:
        if process.poll() is None:
            started.resume()
            started.end()


def used_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
