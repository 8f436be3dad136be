"""Writes into pods how dear their deletion would be. That it fails costs nothing but an unlucky choice at a scale-down."""

import logging
from collections.abc import Callable, Iterable

from octavo_operator import deletion_cost, kinds, kube
from octavo_operator.observed import PodView
from octavo_operator.service import Key, Service
from octavo_operator.state.readings import Readings

logger = logging.getLogger(__name__)


class Marking:
    def __init__(self, api: kube.Kube, readings: Readings, clock: Callable[[], float]) -> None:
        self._api = api
        self._readings = readings
        self._turns = deletion_cost.Turns(clock)

    async def mark(self, service: Service, pods: Iterable[PodView]) -> float | None:
        """Annotates the pods whose load has changed, where an autoscaler may stop one of them.

        Returns the seconds after which to look again, None where nothing waits. Only ReplicaSets read the annotation.
        """
        follows = service.autoscaling is not None and service.workload_kind == kinds.DEPLOYMENT
        self._readings.follow_load(service.key, follows)
        if not follows:
            return None
        wanted = deletion_cost.marks(pods, self._readings.of(service.key).loads)
        now = self._turns.take(wanted)
        for mark in now:
            key = Key(service.key.namespace, mark.pod.name)
            try:
                await self._api.annotate(kinds.POD, key, mark.pod.uid, mark.annotations)
            except kube.KubeError as error:
                logger.warning("%s: its deletion cost stays: %s", key, error)
        return self._turns.wait_s(mark for mark in wanted if mark not in now)
