"""What tests start on this machine does not outlive them."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.kubectl import wait_for
from tests.cluster.operator_process import free_port

HOSTING = """
import sys, threading
from pathlib import Path
from tests.cluster.hosted import running

server = [sys.executable, "-m", "http.server", sys.argv[1], "--bind", "127.0.0.1"]
with running(server, Path(sys.argv[2]), f"http://127.0.0.1:{sys.argv[1]}/"):
    print("up", flush=True)
    threading.Event().wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ties a process to its parent")
@pytest.mark.parametrize(
    "number", [pytest.param(signal.SIGTERM, id="ended"), pytest.param(signal.SIGKILL, id="killed")]
)
def test_a_hosted_program_ends_with_a_session_that_is(number: signal.Signals, tmp_path: Path) -> None:
    port = free_port()
    words = [sys.executable, "-c", HOSTING, str(port), str(tmp_path / "log")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as session:
        assert session.stdout is not None
        assert session.stdout.readline() == "up\n"
        session.send_signal(number)
    wait_for(lambda: not listens(port), 10, "the hosted program to end")


def listens(port: int) -> bool:
    lines = Path("/proc/net/tcp").read_text().splitlines()
    return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in lines)
