"""What kstatus, the library that GitOps tools judge objects by, says of one object at every moment of its life."""

import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from tests.cluster.kubectl import Kubectl, Object, wait_for
from tests.cluster.onenode import addons
from tests.cluster.onenode.errors import CannotRunHereError
from tests.cluster.onenode.machine import child_environ


@dataclass(frozen=True)
class State:
    """An object as the API server told of it, and kstatus' word for it (`NotFound` where it was deleted)."""

    status: str
    object: Object


@dataclass
class Record:
    """Grows while the object is followed."""

    states: list[State] = field(default_factory=list)


@contextmanager
def following(kubectl: Kubectl, resource: str, name: str) -> Iterator[Record]:
    """Follows the object, which need not exist yet; `resource` is plural.version.group."""
    access = kubectl.access
    assert kubectl.namespace is not None
    command = [
        *(str(program("kstatus")), str(access.kubeconfig), access.context),
        *(resource, kubectl.namespace, name),
    ]
    record, watches = Record(), threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=child_environ()) as process:

        def read() -> None:
            assert process.stdout is not None
            for text in process.stdout:
                line = json.loads(text)
                if line["status"] == "Watching":
                    watches.set()
                else:
                    record.states.append(State(line["status"], line["object"]))

        reader = threading.Thread(target=read)
        reader.start()
        try:
            wait_for(watches.is_set, 20.0, "the watcher to begin")
            yield record
        finally:
            process.terminate()
            reader.join(10.0)


def program(name: str) -> str:
    """The path of a program of `addons`; the test is skipped where it cannot be built."""
    try:
        return str(addons.ensure(name))
    except CannotRunHereError as error:
        pytest.skip(str(error))
