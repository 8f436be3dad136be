"""Programs that run on this machine beside a cluster while a block runs: controllers that tests use as they are."""

import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.bound import bound
from tests.cluster.kubectl import wait_for
from tests.cluster.onenode.machine import child_environ

STOP_S = 20.0


@contextmanager
def running(command: Sequence[str | Path], log: Path, ready_url: str, ready_s: float = 60.0) -> Iterator[None]:
    """Runs `command`, whose output goes to `log`, once `ready_url` answers 200; raises where it ends before the block does."""
    words = [str(word) for word in command]
    with log.open("wb") as output:
        process = subprocess.Popen(bound(words), stdout=output, stderr=subprocess.STDOUT, env=child_environ())

    def is_up() -> bool:
        _check_alive(process, words[0], log)
        return answers(ready_url)

    try:
        wait_for(is_up, ready_s, f"{words[0]} to answer on {ready_url}; see {log}")
        yield
        _check_alive(process, words[0], log)
    finally:
        process.terminate()
        process.wait(STOP_S)


def answers(url: str) -> bool:
    try:
        read(url)
    except (urllib.error.URLError, OSError):
        return False
    return True


def read(url: str, timeout_s: float = 5.0) -> str:
    """The text at `url`, past any proxy; whose certificate an https address shows does not matter, since it is this machine's."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context))
    with opener.open(url, timeout=timeout_s) as answer:
        text: str = answer.read().decode()
        return text


def _check_alive(process: subprocess.Popen[bytes], program: str, log: Path) -> None:
    if process.poll() is not None:
        end = "\n".join(log.read_text(errors="replace").splitlines()[-15:])
        raise RuntimeError(f"{program} ended with {process.returncode}:\n{end}")
