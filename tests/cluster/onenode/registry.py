"""The loopback registry that our images go through: Debian's docker-registry with its data in the cache folder."""

import shutil
import time
import urllib.error
import urllib.request

import yaml

from tests.cluster.onenode import layout
from tests.cluster.onenode.errors import OneNodeError
from tests.cluster.onenode.machine import check_port_free, child_environ, search_path
from tests.cluster.onenode.processes import Processes

NAME = "docker-registry"


def ensure(processes: Processes) -> None:
    """Starts the registry where it does not run, and waits until it answers."""
    if processes.running(NAME):
        return
    host, _, port = layout.REGISTRY.partition(":")
    check_port_free(host, int(port))
    layout.RUN.mkdir(parents=True, exist_ok=True)
    config = layout.RUN / "registry.yaml"
    config.write_text(yaml.safe_dump(configuration()))
    program = _program()
    processes.start(NAME, [program, "serve", str(config)], child_environ())
    deadline_s = time.monotonic() + 20.0
    while not answers():
        if not processes.running(NAME) or time.monotonic() > deadline_s:
            raise OneNodeError(f"the registry does not answer on {layout.REGISTRY}\n{processes.log_end(NAME)}")
        time.sleep(0.05)


def answers() -> bool:
    # Never through a proxy: the address is this machine's.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{layout.REGISTRY}/v2/", timeout=2.0) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def configuration() -> dict[str, object]:
    return {
        "version": 0.1,
        "log": {"level": "warn", "accesslog": {"disabled": True}},
        "storage": {
            "filesystem": {"rootdirectory": str(layout.cache_folder() / "registry")},
            "delete": {"enabled": True},
        },
        "http": {"addr": layout.REGISTRY},
    }


def _program() -> str:
    program = shutil.which(NAME, path=search_path())
    if program is None:
        raise OneNodeError(f"{NAME} is not installed: `apt-get install docker-registry`")
    return program
