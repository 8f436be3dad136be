"""The operator's command line. Namespaces, runtime image and Prometheus' address may come from the environment; options win."""

import argparse
import dataclasses
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from octavo_operator import access, allowances
from octavo_operator.installation import Installation
from octavo_operator.service import Key

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_NAMESPACE = re.compile(_LABEL)
_LEASE = re.compile(rf"{_LABEL}/{_LABEL}(\.{_LABEL})*")
_LAST_PORT = 65535


@dataclasses.dataclass(frozen=True)
class Webhook:
    """Where the admission webhook listens, and the folder of its `tls.crt` and `tls.key`."""

    port: int
    certificates: Path


@dataclasses.dataclass(frozen=True)
class Options:
    """`namespaces` empty means the whole cluster; without `lease` this process is alone. Ports are TCP."""

    access: access.Access
    namespaces: tuple[str, ...]
    runtime_image: str | None
    health_port: int
    metrics_port: int
    workers: int
    resync_s: float
    log_level: str
    lease: Key | None
    watch_timeout_s: float
    discovery_s: float
    webhook: Webhook | None
    prometheus_url: str | None
    host_paths: tuple[str, ...]
    powers: frozenset[str]
    inspects: bool

    @property
    def installation(self) -> Installation:
        return Installation(
            runtime_image=self.runtime_image,
            namespace=self.lease.namespace if self.lease else None,
            prometheus_url=self.prometheus_url,
            host_paths=self.host_paths,
            powers=self.powers,
            inspects=self.inspects,
        )


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
        "--health-port",
        type=int,
        default=8081,
        help="port of /healthz and /readyz; 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--metrics-port",
        type=int,
        default=8080,
        help="port of /metrics; 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--workers", type=int, default=8, help="services reconciled at the same time (default: %(default)s)"
    )
    parser.add_argument(
        "--resync",
        type=float,
        default=600.0,
        help="seconds after which every service is looked at again (default: %(default)s)",
    )
    parser.add_argument(
        "--lease",
        metavar="NAMESPACE/NAME",
        help="work only while holding this Lease, as one of several operators (default: work at once, as the only one)",
    )
    parser.add_argument(
        "--watch-timeout",
        type=float,
        default=70.0,
        help="seconds of silence after which a watch is opened anew; the API server sends a bookmark each minute "
        "(default: %(default)s)",
    )
    parser.add_argument(
        "--discovery",
        type=float,
        default=60.0,
        help="seconds after which the API server is asked again which optional resources it serves (default: %(default)s)",
    )
    parser.add_argument(
        "--webhook-port",
        type=int,
        default=9443,
        help="port of the admission webhook; 0 takes a free one (default: %(default)s)",
    )
    parser.add_argument(
        "--webhook-certificates",
        type=Path,
        metavar="FOLDER",
        help="serve the admission webhook with this folder's tls.crt and tls.key, read again when they change (default: none)",
    )
    parser.add_argument(
        "--prometheus-address",
        metavar="URL",
        default=environment.get("OCTAVO_PROMETHEUS_ADDRESS"),
        help="where KEDA finds Prometheus, for services that it scales (OCTAVO_PROMETHEUS_ADDRESS; default: unknown)",
    )
    parser.add_argument(
        "--inspection",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="inspect each model in a Job before its first pod, and make no pods that it would not fit (default: on)",
    )
    _add_allowances(parser)
    parser.add_argument(
        "--log-level",
        default="info",
        choices=("debug", "info", "warning", "error"),
        help="the least of what is logged (default: %(default)s)",
    )
    parsed = parser.parse_args(arguments)
    from_environment = [name.strip() for name in environment.get("OCTAVO_NAMESPACES", "").split(",")]
    namespaces = tuple(parsed.namespace or filter(None, from_environment))
    _check(parser, parsed, namespaces)
    return Options(
        access=access.Access(parsed.kubeconfig, parsed.context),
        namespaces=namespaces,
        runtime_image=parsed.runtime_image or None,
        health_port=parsed.health_port,
        metrics_port=parsed.metrics_port,
        workers=parsed.workers,
        resync_s=parsed.resync,
        log_level=parsed.log_level,
        lease=Key(*parsed.lease.split("/")) if parsed.lease else None,
        watch_timeout_s=parsed.watch_timeout,
        discovery_s=parsed.discovery,
        webhook=Webhook(parsed.webhook_port, parsed.webhook_certificates) if parsed.webhook_certificates else None,
        prometheus_url=parsed.prometheus_address or None,
        host_paths=tuple(parsed.allow_host_path),
        powers=frozenset(parsed.allow_in_pod_template),
        inspects=parsed.inspection,
    )


def _check(parser: argparse.ArgumentParser, parsed: argparse.Namespace, namespaces: Sequence[str]) -> None:
    """Exits with a message where a value is wrong."""
    if (parsed.kubeconfig is None) != (parsed.context is None):
        parser.error("--kubeconfig and --context go together: give both, or neither inside a pod")
    _check_numbers(parser, parsed)
    for namespace in namespaces:
        if not _NAMESPACE.fullmatch(namespace):
            parser.error(f"--namespace is {namespace}: give a namespace's name, of a-z, 0-9 and '-'")
    if parsed.lease is not None and not _LEASE.fullmatch(parsed.lease):
        parser.error(f"--lease is {parsed.lease}: give NAMESPACE/NAME")
    if parsed.prometheus_address and not parsed.prometheus_address.startswith(("http://", "https://")):
        parser.error(f"--prometheus-address is {parsed.prometheus_address}: give a URL, http://… or https://…")
    for folder in parsed.allow_host_path:
        if not folder.startswith("/") or ".." in folder.split("/"):
            parser.error(f"--allow-host-path is {folder}: give an absolute path without '..'")


def _check_numbers(parser: argparse.ArgumentParser, parsed: argparse.Namespace) -> None:
    if parsed.workers < 1:
        parser.error(f"--workers is {parsed.workers}: give at least 1")
    for name in ("resync", "watch_timeout", "discovery"):
        if getattr(parsed, name) < 1:
            parser.error(f"--{name.replace('_', '-')} is {getattr(parsed, name)}: give at least 1 second")
    for name in ("health_port", "metrics_port", "webhook_port"):
        if not 0 <= getattr(parsed, name) <= _LAST_PORT:
            parser.error(f"--{name.replace('_', '-')} is {getattr(parsed, name)}: give a port, 0 to {_LAST_PORT}")


def _add_allowances(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--allow-host-path",
        action="append",
        default=[],
        metavar="FOLDER",
        help="let services mount folders of their nodes below this one; may be repeated (default: none)",
    )
    parser.add_argument(
        "--allow-in-pod-template",
        action="append",
        default=[],
        choices=allowances.POWERS,
        help="let services give this to their pods by spec.podTemplate; may be repeated (default: none)",
    )
