"""Who says how many pods there are: the spec, or an autoscaler to which the operator hands the number over. Pure.

Server-side apply removes a field that its only owner no longer applies, and a workload without a number has one pod. So the number
that is live is first applied in the name of `octavo-handover`, then left out of what the operator applies, and only then there is
an autoscaler. It takes the field from the handover with the first number that it writes.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator import apply
from octavo_operator.service import Service


@dataclasses.dataclass(frozen=True)
class Replicas:
    """`number` of pods (of groups, with several nodes) that there shall be; `handed_over` where it is an autoscaler's to change."""

    number: int
    handed_over: bool = False


def replicas(service: Service, workload: Mapping[str, Any] | None) -> Replicas:
    """`workload` is the live one, None where there is none yet."""
    if service.suspend:
        return Replicas(0)
    if service.autoscaling is None:
        return Replicas(service.replicas)
    live = 0 if workload is None else workload["spec"].get("replicas", 1)
    # A zero of ours is that of a service that was stopped: no autoscaler would ever leave it.
    if live == 0 and (workload is None or owns_number(workload)):
        return Replicas(service.autoscaling.min_replicas, handed_over=True)
    return Replicas(live, handed_over=True)


def owns_number(workload: Mapping[str, Any]) -> bool:
    """Whether the operator's apply owns the number of pods of the live `workload`."""
    return "f:replicas" in (apply.owned_fields(workload) or {}).get("f:spec", {})


def with_number(body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """`body` as it has to be made where it does not exist yet."""
    return {**body, "spec": {**body["spec"], "replicas": number}}


def without_number(body: Mapping[str, Any]) -> dict[str, Any]:
    """`body` as it is applied once the number is another's."""
    return {**body, "spec": {field: value for field, value in body["spec"].items() if field != "replicas"}}


def only_number(body: Mapping[str, Any], number: int) -> dict[str, Any]:
    """What is applied to hand the number over."""
    metadata = {field: body["metadata"][field] for field in ("name", "namespace")}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": metadata, "spec": {"replicas": number}}
