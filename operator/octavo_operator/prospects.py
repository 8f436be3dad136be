"""The conditions CapacityAvailable and RolloutBlocked: whether the wanted pods have room, and what a rollout waits for. Pure."""

from octavo_operator import groups
from octavo_operator.conditions import Condition, Withheld
from octavo_operator.observed import Observed
from octavo_operator.plan import Plan
from octavo_operator.service import Service
from octavo_operator.strategy import Outlook, Standing


def conditions(service: Service, plan: Plan, observed: Observed, withheld: Withheld | None = None) -> list[Condition]:
    """Empty where a step was planned without looking."""
    if plan.outlook is None:
        return []
    if withheld is None and plan.replicas and (lacking := groups.lacking(service, observed.served)):
        withheld = Withheld(*lacking)
    blocked = _withheld(withheld) if withheld else rollout_blocked(service, plan, plan.outlook, observed)
    return [capacity_available(service, plan.outlook), blocked]


def _withheld(withheld: Withheld) -> Condition:
    told = "no pods of this spec are made" if withheld.for_good else "no pods of this spec are made yet"
    return Condition.of("RolloutBlocked", withheld.for_good, withheld.reason, f"{told}: {withheld.message}")


def capacity_available(service: Service, outlook: Outlook) -> Condition:
    kind, stand, room = "CapacityAvailable", outlook.standing, outlook.room
    if stand.wanted == 0:
        return Condition.of(kind, True, "NothingWanted", "no pods are wanted")
    if stand.missing == 0:
        return Condition.of(
            kind,
            True,
            "AllPlaced",
            f"all {stand.wanted} pods have a node" if stand.wanted > 1 else "the pod has a node",
        )
    if room is None:
        return Condition.of(kind, None, "NotKnown", _sentence(outlook.unknown, stand.words))
    after = " once the old pods are gone" if stand.old else ""
    fitting = room.slots(stand.old_placed)
    if stand.words and fitting:
        return Condition.of(
            kind, False, "Unschedulable", f"there seems to be room, yet the scheduler says: {stand.words}"
        )
    if fitting >= stand.missing:
        return Condition.of(
            kind, True, "RoomFound", f"{_pods(stand.missing)} of {room.need()} more: {_fit(stand.missing)}{after}"
        )
    message = (
        f"{_pods(stand.missing)} of {room.need()} more: {_fit(stand.missing, fitting)}{after} ({room.told()}); "
        "free some, add nodes, or lower spec.replicas or what each pod asks for"
    )
    return Condition.of(kind, False, _insufficient(service, outlook), message)


def rollout_blocked(service: Service, plan: Plan, outlook: Outlook, observed: Observed) -> Condition:
    kind, stand = "RolloutBlocked", outlook.standing
    if outlook.is_quiet:
        return Condition.of(kind, False, "NotRollingOut", "no rollout is under way")
    failure = observed.deployment.failure if observed.deployment else ""
    if failure:
        reason = "QuotaExceeded" if "exceeded quota" in failure else "PodsRefused"
        return Condition.of(kind, True, reason, _sentence(failure, _others(stand)))
    if outlook.failing:
        return Condition.of(kind, True, "PodsFail", _sentence(outlook.failing, _others(stand)))
    if plan.held or _is_stuck(service, outlook):
        return Condition.of(kind, True, _insufficient(service, outlook), _stuck_message(service, plan, outlook))
    return Condition.of(
        kind, False, "RollingOut" if stand.old else "Starting", plan.reason if stand.old else "pods are being made"
    )


def _is_stuck(service: Service, outlook: Outlook) -> bool:
    """Whether new pods wait for room that nothing will make: no old pod holds any, or the strategy asked for lets none go."""
    stand, room = outlook.standing, outlook.room
    if stand.ending or stand.missing == 0 or (stand.old_placed and service.rollout.strategy == "Auto"):
        return False
    return bool(stand.words) or (stand.waiting > 0 and room is not None and room.slots() == 0)


def _stuck_message(service: Service, plan: Plan, outlook: Outlook) -> str:
    stand, room = outlook.standing, outlook.room
    if plan.held:
        return plan.reason
    if room is None or (stand.words and room.slots()):
        told = f"the scheduler says: {stand.words}"
    else:
        verb = "waits" if stand.waiting == 1 else "wait"
        told = f"{_pods(stand.waiting)} of {room.need()} {verb} for room: {room.told()}"
    remedy = f"set spec.rollout.strategy to Auto instead of {service.rollout.strategy}"
    return _sentence(told, remedy if stand.old_placed else "")


def _insufficient(service: Service, outlook: Outlook) -> str:
    room = outlook.room
    if room is None or (outlook.standing.words and room.slots()):
        return "Unschedulable"
    if not room.free:
        return "NoNodeOpen"
    return "InsufficientGPUs" if room.scarce() == service.gpu.resource else "InsufficientResources"


def _others(stand: Standing) -> str:
    return "the old pods stay meanwhile" if stand.old else ""


def _sentence(first: str, second: str) -> str:
    return f"{first}; {second}" if second else first


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"


def _fit(count: int, fitting: int | None = None) -> str:
    """That of `count` pods `fitting` fit, None being all; as it is said of one and of several."""
    if count == 1:
        return "it fits" if fitting is None else "it does not fit"
    return "they fit" if fitting is None else f"{fitting} of them {'fits' if fitting == 1 else 'fit'}"
