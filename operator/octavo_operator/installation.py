"""What whoever installs the operator decides, and every service's children may depend on. Pure."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Installation:
    """`runtime_image` is that of services that name none; `namespace` is the operator's own, None where it runs outside the
    cluster.

    `prometheus_url` is where KEDA asks; None where nobody said. `kubernetes` is the API server's version, zeros before it is known.
    `inspects`: a model is inspected before its pods are made.

    `host_paths` are folders of nodes below which pods may mount; `powers` what services may give their pods (`allowances.POWERS`).
    """

    runtime_image: str | None = None
    namespace: str | None = None
    prometheus_url: str | None = None
    host_paths: tuple[str, ...] = ()
    powers: frozenset[str] = frozenset()
    inspects: bool = True
    kubernetes: tuple[int, int] = (0, 0)
