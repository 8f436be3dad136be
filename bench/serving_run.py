"""One run of one engine for `bench serving`, in a process of its own: warm-up, batch, one stream, then one JSON line.

    python -m bench.serving_run octavo|http|static MODEL [--requests 64] [--repeats 2]
    python -m bench.serving_run url NAME --url http://127.0.0.1:8100 [--fields '{"ignore_eos": true}']

`octavo` is the engine in process with the defaults that users get, `http` a real `octavo serve` with this process as its one client
program, `static` transformers' `generate` in batches of 8, `url` any running server whose `/v1/completions` takes token ids.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the engine process sets it; before torch is loaded

from bench.serving_result import Result

ENGINES = ("octavo", "http", "static", "url")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    parsed = parser.parse_args(arguments)
    if wrong := _wrong(parsed):
        parser.error(wrong)
    print(_run(parsed).line(), flush=True)
    return 0


def _run(parsed: argparse.Namespace) -> Result:
    """Only what the engine needs is imported: its start counts."""
    if parsed.engine == "octavo":
        from bench.serving_octavo import in_process

        return in_process(Path(parsed.model), parsed.requests, parsed.repeats)
    if parsed.engine == "static":
        from bench.serving_static import static

        return static(Path(parsed.model), parsed.requests, parsed.repeats)
    from bench import serving_http

    if parsed.engine == "http":
        return serving_http.own_server(Path(parsed.model), parsed.requests, parsed.repeats)
    target = serving_http.Target(parsed.url, parsed.model, json.loads(parsed.fields))
    return serving_http.running_server(target, parsed.requests, parsed.repeats)


def _wrong(parsed: argparse.Namespace) -> str | None:
    if (parsed.engine == "url") != (parsed.url is not None):
        return "--url goes with the engine `url`, and that engine needs it: give both or neither"
    if parsed.engine != "url" and not Path(parsed.model).exists():
        return f"the model {parsed.model} does not exist: give a GGUF file or a model folder"
    return None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="One run of one engine, as one JSON line.", allow_abbrev=False)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("model", help="GGUF file or model folder; for `url` the name that requests give")
    parser.add_argument("--requests", type=positive, default=64, help="requests in the batch (default: 64)")
    parser.add_argument("--repeats", type=positive, default=2, help="runs of the batch (default: 2)")
    parser.add_argument("--url", help="of the server, for `url`")
    parser.add_argument(
        "--fields",
        default='{"ignore_eos": true}',
        help="further fields of a request to it, as JSON (default: %(default)s)",
    )
    return parser


def positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of at least 1")
    return value


if __name__ == "__main__":
    sys.exit(main())
