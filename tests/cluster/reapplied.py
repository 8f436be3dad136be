"""Manifests that are applied again every second, as GitOps tools do, and what that changes."""

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from tests.cluster.kubectl import CommandError, Kubectl, Object, condition, wait_for
from tests.operator.live import KIND, versions

EVERY_S = 1.0
SAME = 4  # looks that find the same: then nothing writes any more


class Reapplied:
    """`before` are the versions of the objects and their children once all is at rest, `times` how often all were applied since."""

    def __init__(self, kubectl: Kubectl, manifests: Mapping[bool, Object]) -> None:
        self.times = 0
        self.failure: CommandError | None = None
        self._kubectl = kubectl
        self._manifests = manifests
        self.before = self._at_rest()

    def run(self, stop: threading.Event) -> None:
        try:
            while not stop.wait(EVERY_S):
                for server_side, item in self._manifests.items():
                    self._kubectl.apply(item, server_side=server_side)
                self.times += 1
        except CommandError as error:
            self.failure = error

    def versions(self) -> list[dict[str, str]]:
        return [versions(self._kubectl, item["metadata"]["name"]) for item in self._manifests.values()]

    def differences(self) -> str:
        """Empty, for `kubectl diff` fails where there is one: raises `CommandError`, which tells of it."""
        return "".join(
            self._kubectl.run("diff", "--filename=-", *(["--server-side"] if way else []), stdin=json.dumps(item))
            for way, item in self._manifests.items()
        )

    def _at_rest(self) -> list[dict[str, str]]:
        """A service is as it shall be before the Deployment's own controller has written its last, and before it is sized."""
        wait_for(lambda: all(map(self._is_sized, self._manifests.values())), 60.0, "all models to be sized")
        seen = [self.versions()]

        def rests() -> bool:
            seen.append(self.versions())
            return len(seen) >= SAME and all(found == seen[-1] for found in seen[-SAME:])

        wait_for(rests, 60.0, "all writing to end", interval_s=EVERY_S)
        return seen[-1]

    def _is_sized(self, item: Object) -> bool:
        return condition(self._kubectl.get(KIND, item["metadata"]["name"]), "MemoryFits").get("status") == "True"


@contextmanager
def reapplying(kubectl: Kubectl, manifests: Mapping[bool, Object]) -> Iterator[Reapplied]:
    """Applies the manifests, by key server-side or not, while the block runs."""
    found, stop = Reapplied(kubectl, manifests), threading.Event()
    thread = threading.Thread(target=found.run, args=(stop,))
    thread.start()
    try:
        yield found
    finally:
        stop.set()
        thread.join(30.0)
