"""What the features of a service say in its status, besides the conditions that every service has. Pure.

A feature adds one line here: its conditions, none where it is not asked for.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

from octavo_operator import autoscaling, monitoring, pins, prospects, routing
from octavo_operator.conditions import Condition, Withheld
from octavo_operator.observed import Observed
from octavo_operator.plan import Plan
from octavo_operator.service import Service


@dataclasses.dataclass(frozen=True)
class Report:
    """Conditions and status fields of features; what is empty is absent from the status."""

    conditions: tuple[Condition, ...] = ()
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def plus(self, conditions: Iterable[Condition], fields: Mapping[str, Any]) -> "Report":
        return Report((*self.conditions, *conditions), {**self.fields, **fields})


NOTHING = Report()


def report(service: Service, plan: Plan, observed: Observed, withheld: Withheld | None = None) -> Report:
    """`withheld`: why no pods of this spec are made, where none are."""
    return Report(tuple(_conditions(service, plan, observed, withheld)))


def _conditions(service: Service, plan: Plan, observed: Observed, withheld: Withheld | None) -> list[Condition]:
    found = [
        routing.condition(service, observed),
        autoscaling.condition(service, observed.signal),
        monitoring.condition(service, observed),
        pins.upgrade_available(service.pin, service.runtime.image),
    ]
    return [
        *prospects.conditions(service, plan, observed, withheld),
        *(condition for condition in found if condition is not None),
    ]
