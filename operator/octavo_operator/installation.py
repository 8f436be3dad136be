"""What whoever installs the operator decides, and every service's children may depend on. Pure."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Installation:
    """`runtime_image` is that of services that name none; `namespace` is the operator's own, None where it runs outside the
    cluster. `clusterwide`: the operator sees all namespaces, and nodes.

    `prometheus_url` is where KEDA asks; None where nobody said. `kubernetes` is the API server's version, zeros before it is known.
    """

    runtime_image: str | None = None
    namespace: str | None = None
    prometheus_url: str | None = None
    clusterwide: bool = False
    kubernetes: tuple[int, int] = (0, 0)
