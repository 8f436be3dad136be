"""Amounts of resources as whole numbers, and what a pod asks of its node as the scheduler counts it. Pure.

Every amount is in thousandths of its unit (of a core, a byte, a GPU, a pod), so that all are integers and compare alike. Rules:
https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/ and the API's helper `PodRequests`.
"""

import functools
import re
from collections.abc import Iterable, Mapping
from decimal import ROUND_CEILING, Decimal
from typing import Any

Amounts = Mapping[str, int]  # resource → thousandths

ONE = 1000
PODS = "pods"

_TEXT = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i))?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]
_BYTES = ("memory", "ephemeral-storage", "hugepages-")


@functools.lru_cache(maxsize=4096)  # a cluster's pods ask for few different amounts
def thousandths(text: str | int) -> int:
    """The amount that a quantity of the API server's says, rounded up as there. Raises ValueError where it is none."""
    match = _TEXT.fullmatch(str(text))
    if match is None:
        raise ValueError(f"'{text}' is not a quantity")
    number, exponent, suffix = match.groups()
    amount = Decimal(number) * 1000
    if suffix in _BINARY:
        amount *= 1024 ** (_BINARY.index(suffix) + 1)
    else:
        amount = amount.scaleb(int(exponent or 0) + _DECIMAL.get(suffix or "", 0))
    return int(amount.to_integral_value(ROUND_CEILING))


def parsed(quantities: Mapping[str, Any]) -> dict[str, int]:
    return {resource: thousandths(text) for resource, text in quantities.items()}


def total(amounts: Iterable[Amounts]) -> dict[str, int]:
    summed: dict[str, int] = {}
    for each in amounts:
        for resource, amount in each.items():
            summed[resource] = summed.get(resource, 0) + amount
    return summed


def of_pod(spec: Mapping[str, Any]) -> dict[str, int]:
    """What a pod with that `spec` asks of its node, itself as one of the node's `pods` included.

    Init containers run before the others, so only more than all of those counts; a sidecar (an init container that goes on) counts
    beside them. Amounts of the whole pod (`spec.resources`) replace the sums.
    """
    running = total(_asked(container) for container in spec.get("containers", ()))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers", ()):
        if container.get("restartPolicy") == "Always":
            sidecars = total([sidecars, _asked(container)])
            peak = _larger(peak, sidecars)
        else:
            peak = _larger(peak, total([sidecars, _asked(container)]))
    asked = {**_larger(total([running, sidecars]), peak), **_asked(spec)}
    return total([asked, parsed(spec.get("overhead", {})), {PODS: ONE}])


def text(resource: str, amount: int) -> str:
    """For people: whole units where there are, memory in MiB or GiB."""
    if resource.startswith(_BYTES):
        mebibytes = amount // ONE // 2**20
        return f"{mebibytes // 1024} GiB" if mebibytes >= 1024 and mebibytes % 1024 == 0 else f"{mebibytes} MiB"
    return f"{amount // ONE}" if amount % ONE == 0 else f"{amount}m"


def _asked(container: Mapping[str, Any]) -> dict[str, int]:
    """Requests; a resource with nothing but a limit is requested up to that, as the API server fills in."""
    resources = container.get("resources", {})
    return parsed({**resources.get("limits", {}), **resources.get("requests", {})})


def _larger(one: Amounts, other: Amounts) -> dict[str, int]:
    return {resource: max(one.get(resource, 0), other.get(resource, 0)) for resource in {*one, *other}}
