"""The operator's command line; each option is also an environment variable, and the option wins."""

import argparse
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from octavo_operator import kube


@dataclasses.dataclass(frozen=True)
class Options:
    """`namespaces` empty means the whole cluster. Ports are TCP; `resync_s` is in seconds."""

    access: kube.Access
    namespaces: tuple[str, ...]
    runtime_image: str | None
    health_port: int
    metrics_port: int
    workers: int
    resync_s: float
    log_level: str


def parse(arguments: Sequence[str] | None = None, environment: Mapping[str, str] = os.environ) -> Options:
    """Exits with a message where an option is unknown or wrong."""
    parser = argparse.ArgumentParser(
        prog="python -m octavo_operator", description="Octavo's operator.", allow_abbrev=False
    )
    parser.add_argument(
        "--namespace",
        action="append",
        default=[],
        help="watch only this namespace; may be repeated (default: the whole cluster; OCTAVO_NAMESPACES, by commas)",
    )
    parser.add_argument(
        "--runtime-image",
        default=environment.get("OCTAVO_RUNTIME_IMAGE"),
        help="image of services that name none (OCTAVO_RUNTIME_IMAGE)",
    )
    parser.add_argument("--kubeconfig", type=Path, help="reach the API server by this file (default: as a pod)")
    parser.add_argument("--context", help="context of --kubeconfig")
    parser.add_argument(
        "--health-port", type=int, default=8081, help="port of /healthz and /readyz; 0 takes a free one"
    )
    parser.add_argument("--metrics-port", type=int, default=8080, help="port of /metrics; 0 takes a free one")
    parser.add_argument("--workers", type=int, default=8, help="services reconciled at the same time")
    parser.add_argument(
        "--resync", type=float, default=600.0, help="seconds after which every service is looked at again"
    )
    parser.add_argument("--log-level", default="info", choices=("debug", "info", "warning", "error"))
    parsed = parser.parse_args(arguments)
    if (parsed.kubeconfig is None) != (parsed.context is None):
        parser.error("--kubeconfig and --context go together: give both, or neither inside a pod")
    if parsed.workers < 1:
        parser.error(f"--workers is {parsed.workers}: give at least 1")
    if parsed.resync < 1:
        parser.error(f"--resync is {parsed.resync}: give at least 1 second")
    from_environment = [name.strip() for name in environment.get("OCTAVO_NAMESPACES", "").split(",")]
    return Options(
        access=kube.Access(parsed.kubeconfig, parsed.context),
        namespaces=tuple(parsed.namespace or filter(None, from_environment)),
        runtime_image=parsed.runtime_image or None,
        health_port=parsed.health_port,
        metrics_port=parsed.metrics_port,
        workers=parsed.workers,
        resync_s=parsed.resync,
        log_level=parsed.log_level,
    )
