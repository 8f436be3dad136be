"""A cluster of numbers in which a Deployment rolls: its controller, ReplicaSets, scheduler and kubelets, by their documented rules.

What decides is the operator's own code; what acts is modelled, so that thousands of starts and orders of events can be tried. The
rules of the controller: kubernetes `pkg/controller/deployment/{rolling,recreate}.go`; which pods a ReplicaSet stops first:
`pkg/controller/controller_utils.go` (without a place, then not ready, then any).
"""

import dataclasses
import random

from octavo_operator.capacity.amounts import ONE, PODS
from octavo_operator.capacity.nodes import Node
from octavo_operator.capacity.room import Census, Room, Tenant, room
from octavo_operator.service import Key
from octavo_operator.strategy import Choice, Standing, choose

KEY = Key("demo", "chat")
GPU = "nvidia.com/gpu"


@dataclasses.dataclass
class Pod:
    revision: int
    node: str | None = None
    ready: bool = False
    ending: bool = False
    never_ready: bool = False


@dataclasses.dataclass
class World:
    """`nodes` and `foreign` are GPUs by node; `gpus` what a pod of each revision asks for; `sets` pods wanted by revision."""

    nodes: dict[str, int]
    foreign: dict[str, int]
    gpus: dict[int, int]
    wanted: int
    target: int
    pods: list[Pod] = dataclasses.field(default_factory=list)
    sets: dict[int, int] = dataclasses.field(default_factory=dict)
    choice: Choice = dataclasses.field(default_factory=lambda: Choice("Surge", ""))

    def active(self, revision: int | None = None) -> list[Pod]:
        return [pod for pod in self.pods if not pod.ending and revision in (None, pod.revision)]

    def available(self, revision: int | None = None) -> int:
        return sum(pod.ready for pod in self.active(revision))

    def free(self, node: str) -> int:
        """GPUs that the scheduler may give away: pods hold theirs until they are gone."""
        held = sum(self.gpus[pod.revision] for pod in self.pods if pod.node == node)
        return self.nodes[node] - self.foreign.get(node, 0) - held

    # The operator: its own code over what it sees.

    def tenant(self, pod: Pod) -> Tenant | None:
        return Tenant(pod.node, {GPU: self.gpus[pod.revision] * ONE, PODS: ONE}) if pod.node else None

    def room(self) -> Room:
        nodes = [
            Node(name, {}, (), False, True, {GPU: gpus * ONE, PODS: 110 * ONE}) for name, gpus in self.nodes.items()
        ]
        held = {name: {GPU: gpus * ONE} for name, gpus in self.foreign.items()}
        own = [place for pod in self.active() if (place := self.tenant(pod))]
        container = {"resources": {"limits": {GPU: str(self.gpus[self.target])}}}
        found = room(Census(tuple(nodes), held), KEY, own, {"containers": [container]})
        assert found is not None
        return found

    def standing(self) -> Standing:
        unmade = max(0, self.sets.get(self.target, 0) - len(self.active(self.target)))
        return Standing(
            wanted=self.wanted,
            old=tuple(self.tenant(pod) for pod in self.active() if pod.revision != self.target),
            new=tuple(self.tenant(pod) for pod in self.active(self.target)) + (None,) * unmade,
            ending=sum(pod.ending for pod in self.pods),
        )

    def decide(self) -> bool:
        before, self.choice = self.choice, choose(self.standing(), self.room(), "", "gpu")
        return (before.strategy, before.at_once) != (self.choice.strategy, self.choice.at_once)

    # The Deployment's controller. Each of these returns whether it changed anything.

    def deployment(self) -> bool:
        return self._recreate() if self.choice.strategy == "Recreate" else self._scale_new() or self._scale_old()

    def _old_sets(self) -> list[int]:
        return sorted(revision for revision, count in self.sets.items() if revision != self.target and count)

    def _recreate(self) -> bool:
        if old := self._old_sets():
            self.sets.update(dict.fromkeys(old, 0))
            return True
        if any(pod.revision != self.target for pod in self.pods):
            return False
        return self._set(self.target, self.wanted)

    def _scale_new(self) -> bool:
        surge = 1 if self.choice.strategy == "Surge" else 0
        count, total = self.sets.get(self.target, 0), sum(self.sets.values())
        if count > self.wanted:
            return self._set(self.target, self.wanted)
        return self._set(self.target, count + max(0, min(self.wanted + surge - total, self.wanted - count)))

    def _scale_old(self) -> bool:
        least = self.wanted - (0 if self.choice.strategy == "Surge" else self.choice.at_once)
        new_unavailable = self.sets.get(self.target, 0) - self.available(self.target)
        budget = sum(self.sets.values()) - least - new_unavailable
        if not self._old_sets() or budget <= 0:
            return False
        changed, cleaned = False, 0
        for revision in self._old_sets():
            unhealthy = max(0, min(budget - cleaned, self.sets[revision] - self.available(revision)))
            changed |= self._set(revision, self.sets[revision] - unhealthy)
            cleaned += unhealthy
        surplus = self.available() - least
        for revision in self._old_sets():
            stopped = max(0, min(surplus, self.sets[revision]))
            changed |= self._set(revision, self.sets[revision] - stopped)
            surplus -= stopped
        return changed

    def _set(self, revision: int, count: int) -> bool:
        if self.sets.get(revision, 0) == count:
            return False
        self.sets[revision] = count
        return True

    # ReplicaSets, scheduler, kubelets.

    def replica_sets(self, chance: random.Random) -> bool:
        changed = False
        for revision, count in self.sets.items():
            active = self.active(revision)
            self.pods += [Pod(revision) for _ in range(count - len(active))]
            victims = sorted(active, key=lambda pod: (pod.node is not None, pod.ready, chance.random()))
            for pod in victims[: max(0, len(active) - count)]:
                pod.ending, pod.ready = True, False
                if pod.node is None:
                    self.pods.remove(pod)
            changed |= count != len(active)
        return changed

    def schedule(self, chance: random.Random) -> bool:
        """One pod that fits somewhere, whichever."""
        fits = [
            (pod, node)
            for pod in self.active()
            if pod.node is None
            for node in self.nodes
            if self.free(node) >= self.gpus[pod.revision]
        ]
        if fits:
            pod, node = chance.choice(fits)
            pod.node = node
        return bool(fits)

    def load(self, chance: random.Random) -> bool:
        loading = [pod for pod in self.active() if pod.node and not pod.ready and not pod.never_ready]
        if loading:
            chance.choice(loading).ready = True
        return bool(loading)

    def end(self, chance: random.Random) -> bool:
        ending = [pod for pod in self.pods if pod.ending]
        if ending:
            self.pods.remove(chance.choice(ending))
        return bool(ending)
