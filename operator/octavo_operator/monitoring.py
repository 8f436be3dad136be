"""Whether the objects that spec.monitoring asks for can be made: the condition MonitoringReady. Pure."""

from octavo_operator import kinds
from octavo_operator.conditions import Condition
from octavo_operator.observed import Observed
from octavo_operator.service import Service

TYPE = "MonitoringReady"


def condition(service: Service, observed: Observed) -> Condition | None:
    """None where nothing is asked for."""
    asked = [
        kind
        for kind, wanted in (
            (kinds.POD_MONITOR, service.monitoring.pod_monitor),
            (kinds.PROMETHEUS_RULE, service.monitoring.prometheus_rule),
        )
        if wanted
    ]
    if not asked:
        return None
    if lacking := [kind.full_name for kind in asked if kind not in observed.served]:
        return Condition.of(
            TYPE,
            False,
            "NotServed",
            f"the cluster does not know {', '.join(lacking)}: install the Prometheus Operator, or unset spec.monitoring",
        )
    return Condition.of(TYPE, True, "Applied", f"there is a {' and a '.join(kind.kind for kind in asked)}")
