"""`octavo serve | drain | inspect | fit | preload | manifest | bench | --version`.

The flags of `serve` come from `config.py`'s table, each also in an `OCTAVO_…` variable of the environment.

Kept light: `octavo drain` runs as a preStop hook and must not import a server.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field
from typing import Any

from octavo_runtime import cli_fit, flag_table
from octavo_runtime.cli_arguments import DEFAULT_RUN_DIR
from octavo_runtime.cli_arguments import parser as parser
from octavo_runtime.config import ConfigError, ServeConfig, environment_name, flags

ENVIRONMENT_OF_OTHERS = ("OCTAVO_KUBECONFIG", "OCTAVO_CONTEXT", "OCTAVO_CACHE")  # of the repository's tests and demo


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 good, 1 failed, 2 called wrongly."""
    parsed, unknown = parser().parse_known_args(arguments)
    if unknown:
        return _wrong(f"{unknown[0]} is unknown: `octavo {parsed.command} --help` lists what there is", parsed.command)
    return _RUN[parsed.command](parsed)


def _run_serve(parsed: argparse.Namespace) -> int:
    try:
        config = serve_config(parsed, os.environ)
    except ConfigError as error:
        return _wrong(error)
    from octavo_runtime.cli_serve import serve

    return serve(config)


def _run_drain(parsed: argparse.Namespace) -> int:
    from octavo_runtime.cli_drain import drain

    return drain(drain_run_dir(parsed, os.environ), parsed.settle, parsed.timeout)


def _run_inspect(parsed: argparse.Namespace) -> int:
    from octavo_runtime.cli_inspect import show

    token_file = parsed.hub_token_file or os.environ.get("OCTAVO_HUB_TOKEN_FILE")
    return show(parsed.model, token_file, parsed.termination_log)


def _run_preload(parsed: argparse.Namespace) -> int:
    from octavo_runtime.cli_preload import preload, show

    if parsed.status:
        return show(parsed.weights_cache, parsed.socket)
    return preload(parsed)


def _run_manifest(parsed: argparse.Namespace) -> int:
    from octavo_runtime.cli_manifest import export

    return export(drain_run_dir(parsed, os.environ))


def _run_bench(parsed: argparse.Namespace) -> int:
    from octavo_runtime.cli_bench import bench

    return bench(parsed.name, parsed.arguments)


_RUN: dict[str, Callable[[argparse.Namespace], int]] = {
    "serve": _run_serve,
    "drain": _run_drain,
    "inspect": _run_inspect,
    "fit": cli_fit.run,
    "preload": _run_preload,
    "manifest": _run_manifest,
    "bench": _run_bench,
}


def drain_run_dir(parsed: argparse.Namespace, environment: Mapping[str, str]) -> str:
    """Where the server is that is meant, by the order that `serve` takes its own flag in."""
    return parsed.run_dir or environment.get("OCTAVO_RUN_DIR") or DEFAULT_RUN_DIR


def serve_config(parsed: argparse.Namespace, environment: Mapping[str, str]) -> ServeConfig:
    """Flags over environment variables over defaults. Raises ConfigError."""
    known = {environment_name(field): field for field in flags()}
    values: dict[str, Any] = {}
    for name, text in environment.items():
        if not name.startswith("OCTAVO_") or name in ENVIRONMENT_OF_OTHERS:
            continue
        if name not in known:
            raise ConfigError(
                f"the environment variable {name} is unknown: `octavo serve --help` lists all flags; unset it"
            )
        values[known[name].name] = _from_environment(known[name], name, text)
    values |= {field.name: getattr(parsed, field.name) for field in flags() if getattr(parsed, field.name) is not None}
    return ServeConfig(model=parsed.model, **values)


def _from_environment(field: "Field[Any]", name: str, text: str) -> object:
    try:
        return flag_table.parsed(field, text)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error


def _wrong(error: ConfigError | str, command: str | None = None) -> int:
    print(f"octavo{f' {command}' if command else ''}: {error}", file=sys.stderr)
    return 2
