"""What a probe is answered with, and where probes are answered."""

import dataclasses

PATHS = ("/live", "/ready", "/health", "/state", "/metrics")


@dataclasses.dataclass(frozen=True)
class ProbeAnswer:
    status: int
    content_type: str
    body: bytes
