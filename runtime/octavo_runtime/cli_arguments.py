"""What the command line of `octavo` takes: the commands with their arguments. `serve` has the flags of `config.py`'s table."""

import argparse
import itertools
import sys
from collections.abc import Callable, Sequence
from dataclasses import Field
from typing import Any, NoReturn

import octavo_runtime
from octavo_runtime import cli_fit
from octavo_runtime.config import ConfigError, flag_name, flags
from octavo_runtime.flag_table import parsed
from octavo_runtime.flag_values import parse_seconds

DEFAULT_RUN_DIR = "/run/octavo"
DRAIN_TIMEOUT_S, DRAIN_SETTLE_S = 60.0, 5.0


class _Parser(argparse.ArgumentParser):
    """What is wrong in one line: `serve` alone has 35 lines of usage. A flag that is unknown is named beside what is missing."""

    _given: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        self._given = list(sys.argv[1:] if args is None else args)
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        unknown = "".join(f"{flag} is unknown; " for flag in self._unknown()[:1])
        self.exit(2, f"{self.prog}: {unknown}{message}; `{self.prog} --help` lists what there is\n")

    def _unknown(self) -> list[str]:
        """What comes after a command is that command's affair."""
        own = itertools.takewhile(lambda text: text.startswith("-"), self._given) if self._subparsers else self._given
        flags = (text.partition("=")[0] for text in own if text.startswith("--") and text != "--")
        return [flag for flag in flags if flag not in self._option_string_actions]


def parser() -> argparse.ArgumentParser:
    root = _Parser(
        prog="octavo", description="Serve a language model behind an OpenAI-compatible API.", allow_abbrev=False
    )
    root.add_argument("--version", action="version", version=f"octavo {octavo_runtime.__version__}")
    commands = root.add_subparsers(dest="command", required=True)
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
    commands.metavar = "|".join(commands.choices)
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
        type=_argument(lambda text: parsed(field, text)),
        metavar=_metavar(field),
        help=text + default,
    )


def _metavar(field: "Field[Any]") -> str:
    if choices := field.metadata["choices"]:
        return f"{{{','.join(choices)}}}"
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
