"""One InferenceService, from what the API server says now to what it shall be. Level-triggered: no step asks what happened.

`Reconciler.reconcile` is the story; each step that decides is a pure function elsewhere.
"""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from octavo_operator import (
    allowances,
    apply,
    arguments,
    autoscaling,
    groups,
    kinds,
    kube,
    mirror,
    moments,
    observed,
    pins,
    plan,
    reports,
    service,
    status,
)
from octavo_operator.desired.children import children
from octavo_operator.events import journal, ledger, notes
from octavo_operator.events.strangers import Strangers
from octavo_operator.fits import Fits
from octavo_operator.fitting import judgement
from octavo_operator.fitting.inspections import InspectionView
from octavo_operator.installation import Installation
from octavo_operator.inventory import Inventory
from octavo_operator.kinds import Kind, Ref
from octavo_operator.marking import Marking
from octavo_operator.rollouts import Rollouts
from octavo_operator.signal_path import SignalPath
from octavo_operator.spec import errors
from octavo_operator.state import degradation
from octavo_operator.state.readings import Readings
from octavo_operator.state.shown import shown
from octavo_operator.upkeep import Body, Desired, Found, NameConflictError, Upkeep


@dataclasses.dataclass(frozen=True)
class Watched:
    """What watches tell, asked at each reconcile: pods and children of a service, the optional kinds that are served, and the pods
    that inspect its model. `look_at` has a service looked at as if they had told something of it."""

    pods_of: Callable[[service.Key], tuple[observed.PodView, ...]]
    children_of: Callable[[service.Key], tuple[observed.ChildView, ...]]
    served: Callable[[], frozenset[Kind]]
    inspections_of: Callable[[service.Key], tuple[InspectionView, ...]]
    look_at: Callable[[service.Key], None]


class Reconciler:
    """`readings` are what pods say of themselves."""

    def __init__(
        self, api: kube.Kube, copies: mirror.Mirror, watched: Watched, installation: Installation, readings: Readings
    ) -> None:
        self._api = api
        self._mirror = copies
        self._readings = readings
        self._watched = watched
        self._installation = installation
        self._upkeep = Upkeep(api, copies, watched.children_of)
        self._journal = journal.Journal(api, time.monotonic)
        self._strangers = Strangers()
        self._marking = Marking(api, readings, time.monotonic)
        inventory = Inventory(api, time.monotonic)
        self._rollouts = Rollouts(api, inventory, watched.pods_of)
        self._fits = Fits(inventory, watched.inspections_of, watched.look_at, installation.inspects)
        self._signals = SignalPath(api, installation.prometheus_url)

    async def reconcile(self, key: service.Key) -> float | None:
        """Brings children and status of `key` to what its spec says.

        Returns the seconds after which to look again without an event, where others keep changing a child or pods wait for room;
        else None. Raises KubeError or NameConflictError where it has to be tried again without any event that tells.
        """
        live = await self._mirror.read(kinds.INFERENCE_SERVICE, key)
        if live is None or "deletionTimestamp" in live["metadata"]:
            self._upkeep.contests.forget(key)
            self._rollouts.forget(key)
            self._strangers.forget(key)
            self._fits.forget(key)
            return None
        found = await self._upkeep.find(key, [Ref(service.workload_kind(live), key.name)])
        try:
            before = self._observe(live, found)
            workload = before.workload
            wanted = service.parse(live, pins.pin(live, workload, self._installation.runtime_image))
            await self._check(wanted)
            judged = await self._fits.judge(wanted, live.get("status", {}), before)
            wanted = judged.service
            step = await self._rollouts.refine(wanted, plan.plan(wanted, workload), workload)
            served = self._watched.served()
            wished = judged.children(children(wanted, step, served, self._surroundings()), step)
            desired = Desired(wished, served, step.reason)
            writes = await self._upkeep.bring_about(wanted, desired, found)
        except errors.SpecError as error:
            await self._stall(live, found, status.Problem(error.reason, str(error)))
        except NameConflictError as error:
            await self._stall(live, found, status.Problem("NameConflict", str(error), spec_valid=True))
            raise
        except kube.RejectedError as error:
            await self._stall(live, found, status.Problem("Rejected", f"the API server refuses a child: {error}"))
        except kube.DeniedError as error:
            kept = reports.Report(fields=judgement.kept(live.get("status", {})))
            await self._write_status(live, status.denied(live, str(error), self._observe(live, found), kept))
            raise
        else:
            seen, complaint = self._observe(live, found), self._upkeep.contests.complaint(key)
            seen = dataclasses.replace(seen, signal=await self._signals.look(wanted, seen))
            await self._tell(live, [note for write in writes for note in notes.of_write(write, step.reason)])
            await self._tell(live, self._strangers.notes(key, seen.children))
            judged = judged.beside(seen)
            report = reports.report(wanted, step, seen, judged.withheld(step)).plus(judged.conditions, judged.fields)
            if problem := judged.problem(step):
                said = status.stalled(live, problem, seen, report)
            else:
                obstacle = judged.obstacle(step) or status.contested(complaint)
                said = status.serving(wanted, step, seen, report, obstacle)
            await self._write_status(live, said)
            looks = (
                await self._marking.mark(wanted, seen.pods),
                self._upkeep.contests.look_again_s(key),
                self._rollouts.look_again_s(step),
                judged.look_again_s(step),
                autoscaling.look_again_s(wanted, seen.signal),
            )
            return min((look for look in looks if look is not None), default=None)
        return None

    def _surroundings(self) -> Installation:
        return dataclasses.replace(self._installation, kubernetes=self._api.version)

    async def _check(self, wanted: service.Service) -> None:
        """Raises SpecError where the spec wants what it may not, or what the runtime or its claims cannot give."""
        allowances.check(wanted, self._installation)
        arguments.check(wanted)
        for claim, shared in service.claims(wanted).items():
            live = await self._api.get(kinds.CLAIM, service.Key(wanted.key.namespace, claim))
            service.check_claim(wanted, live, shared)

    def _observe(self, live: Body, found: Found) -> observed.Observed:
        """What is there of the service's own; objects of others that are in the way do not count."""
        key, uid = service.Key(live["metadata"]["namespace"], live["metadata"]["name"]), live["metadata"]["uid"]
        ours = {ref: child for ref, child in found.items() if child and apply.controlled_by(child, uid)}
        workload = ours.get(Ref(service.workload_kind(live), key.name))
        pods, told, status_before = self._watched.pods_of(key), self._readings.of(key), live.get("status", {})
        return observed.Observed(
            workload=workload,
            deployment=groups.workload_view(workload, pods),
            pods=shown(pods, told.readings, status_before),
            children=ours,
            served=self._watched.served(),
            degraded=degradation.judge(
                told.signal,
                told.readings.values(),
                status_before,
                askable=any(pod.running and pod.serving and not pod.ending for pod in pods),
                since=moments.time(told.signal.age_s),
            ),
        )

    async def _stall(self, live: Body, found: Found, problem: status.Problem) -> None:
        kept = reports.Report(fields=judgement.kept(live.get("status", {})))
        await self._write_status(live, status.stalled(live, problem, self._observe(live, found), kept))

    async def _write_status(self, live: Body, desired: dict[str, Any]) -> None:
        changed = status.merged(live.get("status", {}), desired, moments.time())
        if changed is not None:
            await self._mirror.apply_status(kinds.INFERENCE_SERVICE, live, changed)
            await self._tell(live, notes.of_status(live.get("status", {}), changed))

    async def _tell(self, live: Body, told: list[notes.Note]) -> None:
        if told:
            key = service.Key(live["metadata"]["namespace"], live["metadata"]["name"])
            subject = ledger.Subject(key, live["metadata"]["uid"], self._watched.pods_of(key))
            await self._journal.tell(subject, told)
