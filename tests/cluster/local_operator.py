"""The operator from the working tree, as a process on this machine, for one namespace: what `OCTAVO_TEST_NAMESPACE` asks for.

For development: a change of the operator is tested in seconds, without an image, and beside whatever else uses the cluster. What
needs the chart or the whole cluster cannot be tested so.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.access import Access
from tests.cluster.bound import bound
from tests.cluster.onenode import layout

STOP_S = 20.0


def namespace() -> str | None:
    """The namespace that the environment names for this way of testing."""
    return os.environ.get("OCTAVO_TEST_NAMESPACE") or None


@contextmanager
def running(access: Access, watched: str, runtime_image: str, log: Path) -> Iterator[None]:
    """The operator runs while the block does; what it logs goes to `log`."""
    command = [
        *(sys.executable, "-m", "octavo_operator", f"--kubeconfig={access.kubeconfig}", f"--context={access.context}"),
        *(f"--namespace={watched}", f"--runtime-image={runtime_image}", "--health-port=0", "--metrics-port=0"),
        f"--prometheus-address={layout.PROMETHEUS_URL}",
        f"--allow-host-path={layout.VOLUMES}",
    ]
    with log.open("a") as output:
        process = subprocess.Popen(bound(command), stdout=output, stderr=subprocess.STDOUT)
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"the operator ended with {process.returncode}: see {log}")
    finally:
        process.terminate()
        process.wait(STOP_S)
