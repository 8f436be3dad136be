"""`octavo serve | drain | inspect | fit | preload | manifest | bench | --version`.

The flags of `serve` come from `config.py`'s table, each also in an `OCTAVO_…` variable of the environment.

Kept light: `octavo drain` runs as a preStop hook and must not import a server.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field
from typing import Any, NoReturn

import octavo_runtime
from octavo_runtime import cli_fit
from octavo_runtime.config import ConfigError, ServeConfig, environment_name, flag_name, flags
from octavo_runtime.flag_values import parse_seconds

ENVIRONMENT_OF_OTHERS = ("OCTAVO_KUBECONFIG", "OCTAVO_CONTEXT", "OCTAVO_CACHE")  # of the repository's tests and demo
DEFAULT_RUN_DIR = "/run/octavo"
DRAIN_TIMEOUT_S, DRAIN_SETTLE_S = 60.0, 5.0


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
        value = field.metadata["parse"](text)
    except ConfigError as error:
        raise ConfigError(f"{name}: {error}") from error
    choices = field.metadata["choices"]
    if choices and value not in choices:
        raise ConfigError(f"{name}: '{text}' is none of {', '.join(choices)}")
    return value


class _Parser(argparse.ArgumentParser):
    """What is wrong in one line: `serve` alone has 35 lines of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; `{self.prog} --help` lists what there is\n")


def parser() -> argparse.ArgumentParser:
    root = _Parser(
        prog="octavo", description="Serve a language model behind an OpenAI-compatible API.", allow_abbrev=False
    )
    root.add_argument("--version", action="version", version=f"octavo {octavo_runtime.__version__}")
    commands = root.add_subparsers(dest="command", required=True, metavar="|".join(_RUN))
    _add_serve(commands.add_parser("serve", help="serve a model", allow_abbrev=False, epilog=_ENVIRONMENT_HELP))
    _add_drain(
        commands.add_parser(
            "drain", help="let a running server finish what is in flight and refuse new requests", allow_abbrev=False
        )
    )
    _add_inspect(
        commands.add_parser("inspect", help="what a model needs of memory, without loading it", allow_abbrev=False)
    )
    cli_fit.add_arguments(
        commands.add_parser("fit", help="whether a model fits into so much memory", allow_abbrev=False)
    )
    _add_preload(
        commands.add_parser(
            "preload", help="keep packed weights of models in this machine's memory for `serve`", allow_abbrev=False
        )
    )
    _add_manifest(commands.add_parser("manifest", help="the shapes that a server's traffic met", allow_abbrev=False))
    _add_bench(commands.add_parser("bench", help="run a benchmark of the source checkout", allow_abbrev=False))
    return root


_ENVIRONMENT_HELP = "Each flag is also an environment variable: --max-num-seqs is OCTAVO_MAX_NUM_SEQS. The flag wins."


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "model",
        help="a GGUF file or a folder with safetensors and tokenizer.json, as a path or file:///path; or "
        "hf://org/repo[/file.gguf][@revision]",
    )
    for field in flags():
        _add_flag(parser, field)


def _add_flag(parser: argparse.ArgumentParser, field: "Field[Any]") -> None:
    """A switch is `--name` or `--no-name`; everything else takes a value."""
    text = field.metadata["help"].replace("%", "%%")
    if isinstance(field.default, bool):
        default = "on" if field.default else "off"
        parser.add_argument(
            flag_name(field), action=argparse.BooleanOptionalAction, help=f"{text} (default: {default})"
        )
        return
    default = "" if field.default is None else f" (default: {field.default})"
    parser.add_argument(
        flag_name(field),
        type=_argument(field.metadata["parse"]),
        choices=field.metadata["choices"] or None,
        metavar=None if field.metadata["choices"] else _metavar(field),
        help=text + default,
    )


def _metavar(field: "Field[Any]") -> str:
    return {
        "parse_bytes": "BYTES",
        "parse_seconds": "SECONDS",
        "parse_milliseconds": "MILLISECONDS",
        "parse_port": "PORT",
        "parse_positive": "N",
        "parse_count": "N",
        "parse_percent": "PERCENT",
    }.get(field.metadata["parse"].__name__, field.name.upper())


def _add_drain(parser: argparse.ArgumentParser) -> None:
    seconds = _argument(parse_seconds)
    parser.add_argument(
        "--run-dir", help=f"the server's --run-dir (default: the variable OCTAVO_RUN_DIR, else {DEFAULT_RUN_DIR})"
    )
    parser.add_argument(
        "--settle",
        type=seconds,
        metavar="SECONDS",
        default=DRAIN_SETTLE_S,
        help=f"seconds that new requests are still answered, while endpoints forget this replica (default: {DRAIN_SETTLE_S})",
    )
    parser.add_argument(
        "--timeout",
        type=seconds,
        metavar="SECONDS",
        default=DRAIN_TIMEOUT_S,
        help=f"seconds after settling that requests in flight get to finish (default: {DRAIN_TIMEOUT_S})",
    )


def _add_inspect(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="as `serve` takes it; or a config.json alone")
    parser.add_argument(
        "--hub-token-file",
        metavar="PATH",
        help="file with the token for models of hf:// that need one (default: OCTAVO_HUB_TOKEN_FILE, else what HF_TOKEN holds)",
    )
    parser.add_argument("--termination-log", metavar="PATH", help="file that gets the same, or why there is nothing")


def _add_preload(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("models", nargs="*", help="GGUF files, model folders or hf://…, as `serve` takes them")
    parser.add_argument(
        "--weights-cache",
        metavar="DIR",
        help="folder of packed weights, the one that `serve` is given (default: OCTAVO_WEIGHTS_CACHE, else as for `serve`)",
    )
    parser.add_argument(
        "--model-cache",
        metavar="DIR",
        help="folder that models of hf:// are downloaded into, the one that `serve` is given (default: OCTAVO_MODEL_CACHE, else as "
        "for `serve`)",
    )
    parser.add_argument(
        "--hub-token-file",
        metavar="PATH",
        help="file with the token for models of hf:// that need one (default: OCTAVO_HUB_TOKEN_FILE, else what HF_TOKEN holds)",
    )
    parser.add_argument("--socket", metavar="PATH", help="where it answers (default: preload.sock in that folder)")
    parser.add_argument(
        "--lock", action="store_true", help="lock the weights in memory, within the limit of the system"
    )
    parser.add_argument("--once", action="store_true", help="pack into the folder what it lacks, and end")
    parser.add_argument("--status", action="store_true", help="print what a running `octavo preload` holds")


def _add_manifest(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", choices=["export"], help="print it, as --warmup-manifest takes it")
    parser.add_argument(
        "--run-dir", help=f"the server's --run-dir (default: the variable OCTAVO_RUN_DIR, else {DEFAULT_RUN_DIR})"
    )


def _add_bench(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", help="the benchmark (default: list them)")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments; --help after the name lists them")


def _argument(parse: Callable[[str], Any]) -> Callable[[str], Any]:
    """argparse shows the text of its own error class only."""

    def convert(text: str) -> Any:
        try:
            return parse(text)
        except ConfigError as error:
            raise argparse.ArgumentTypeError(str(error)) from error

    return convert


def _wrong(error: ConfigError | str, command: str | None = None) -> int:
    print(f"octavo{f' {command}' if command else ''}: {error}", file=sys.stderr)
    return 2
