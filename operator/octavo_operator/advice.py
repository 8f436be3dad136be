"""What a change of an InferenceService will do to its pods, as warnings for who makes it. Pure; `webhook` serves them.

Nothing is refused here: what cannot be is refused by the CRD's own rules. The sentences are short, since API servers cut them.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator import kinds, names, pins, plan, service
from octavo_operator.desired.children import children
from octavo_operator.service import Service
from octavo_operator.spec.errors import SpecError


@dataclasses.dataclass(frozen=True)
class Running:
    """Pods that run now, and the seconds that one took from its start until it was ready; None where none is ready."""

    pods: int
    start_s: float | None = None


def warnings(old: Mapping[str, Any], new: Mapping[str, Any], running: Running, default_image: str | None) -> list[str]:
    """What changing the InferenceService `old` to `new` will do."""
    try:
        after = service.parse(new, pins.pin(new, None, default_image))
    except SpecError as error:
        return [f"this spec cannot be served: {error}"]
    try:
        before = service.parse(old, pins.pin(old, None, default_image))
    except SpecError:
        return []  # nothing of it runs, or something older still
    return [sentence for sentence in (_stops(before, after, running), _restarts(before, after, running)) if sentence]


def _stops(before: Service, after: Service, running: Running) -> str:
    if running.pods == 0 or _wanted(after, running) == _wanted(before, running):
        return ""
    left = _wanted(after, running)
    if left == 0:
        return f"stops {_pods(running.pods)}: nothing answers then"
    return f"stops {running.pods - left} of {running.pods} pods" if left < running.pods else ""


def _restarts(before: Service, after: Service, running: Running) -> str:
    pods = min(running.pods, _wanted(after, running))
    if pods == 0 or _template(before) == _template(after):
        return ""
    return ", ".join(["restarts " + _pods(pods), *_gpus(after, pods), *_time(after, pods, running)])


def _wanted(wanted: Service, running: Running) -> int:
    if wanted.suspend:
        return 0
    # An autoscaler goes on from as many as there are.
    return wanted.replicas if wanted.autoscaling is None else running.pods


def _template(wanted: Service) -> Any:
    """The pods' template: what restarts them where it changes."""
    workloads = (kinds.DEPLOYMENT, kinds.LEADER_WORKER_SET)
    bodies = children(wanted, plan.plan(wanted), frozenset(workloads))
    return [child.body["spec"]["template"] for child in bodies if child.kind in workloads]


def _gpus(wanted: Service, pods: int) -> list[str]:
    gpus = pods * wanted.parallelism.tensor
    if wanted.device != "gpu":
        return []
    return [f"needs {gpus} GPUs" if gpus > 1 else "needs 1 GPU"]


def _time(wanted: Service, pods: int, running: Running) -> list[str]:
    """How long until all are ready, should the new pods start as fast as those that run did."""
    if running.start_s is None:
        return []
    rounds = 1 if wanted.rollout.strategy == "Recreate" else pods
    minutes = round(rounds * (running.start_s + names.DRAIN_SETTLE_S) / 60)
    return [f"about {minutes} min" if minutes else "under 1 min"]


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
