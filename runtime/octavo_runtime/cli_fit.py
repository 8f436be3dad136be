"""`octavo fit`: whether a model fits before anybody pays for a GPU; the operator's condition MemoryFits by the same arithmetic."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import Field
from typing import Any

from octavo_runtime.config import flag_name, flags
from octavo_sizing.amounts import bytes_text, parse_bytes, parse_positive
from octavo_sizing.errors import ContextError, DegreeError, HeadWidthError, KvFormError, SizingError
from octavo_sizing.fit import Fit, degrees, fit
from octavo_sizing.flags import KNOWN, with_flags
from octavo_sizing.inspection import Inspection
from octavo_sizing.report import CPU_FLAGS, FLAGS, Words, fields, verdict
from octavo_sizing.setup import DEFAULT_MAX_NUM_SEQS, Setup
from octavo_sizing.weights import parameters

_LEAST_MEMORY_BYTES = 1 << 20
_OWN = ("--tensor-parallel-size",)  # flags of `serve` that have a shorter name here

_HELP = {  # where what `serve` says of itself is not so here
    "--dtype": "type of weights and KV cache (default: bfloat16)",
    "--kv-cache-memory": "memory for KV pages, such as 2Gi: of each GPU, or of all CPU ranks of a node together (default: what "
    "is left on a GPU; on CPUs half of that, at most 2Gi)",
    "--max-num-seqs": f"most sequences in one step (default: {DEFAULT_MAX_NUM_SEQS})",
    "--nodes": "number of nodes that share the ranks (default: 1)",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="as `serve` takes it; or a model's config.json alone")
    parser.add_argument("--device", choices=["gpu", "cpu"], default="gpu", help="what computes (default: gpu)")
    parser.add_argument("--gpu-memory", metavar="BYTES", help="memory of one GPU, such as 80Gi")
    parser.add_argument("--memory", metavar="BYTES", help="with --device cpu: the limit of the process (default: none)")
    parser.add_argument(
        FLAGS.tensor, *_OWN, dest="tensor", metavar="N", default="1", help="GPUs, or CPU ranks (default: 1)"
    )
    parser.add_argument(
        "--hub-token-file", metavar="PATH", help="file with the token for models of hf:// that need one"
    )
    parser.add_argument(
        "--json", action="store_true", help="print it as JSON, also where it cannot be told or no memory would help"
    )
    for field in _shared():
        _add(parser, field)


def run(parsed: argparse.Namespace) -> int:
    """0 where it fits, 1 where it does not, 2 where that cannot be told."""
    # Imported here: `octavo drain` has no need of what reads models.
    from octavo_runtime.source.inspection import ERRORS, inspect

    try:
        setup = _setup(parsed)
        found = inspect(parsed.model, parsed.hub_token_file)
        answer = _fit(found, setup)
    except (DegreeError, ContextError, KvFormError, HeadWidthError) as error:
        _refuse(parsed.json, False, f"does not fit: {error}", error.possible if isinstance(error, DegreeError) else ())
        return 1
    except (SizingError, *ERRORS) as error:
        _refuse(parsed.json, None, str(error))
        return 2
    compared = _compared(found, setup)
    print(_json(found, answer, compared) if parsed.json else _text(found, answer, compared))
    return 0 if answer.fits else 1


def _refuse(as_json: bool, fits: bool | None, verdict: str, possible: Sequence[int] = ()) -> None:
    """Where there is no arithmetic to show; `fits` None: that cannot be told. `possible` degrees are told where others are not."""
    if not as_json:
        print(f"octavo fit: {verdict}", file=sys.stderr)
        return
    answer = {"fits": fits, "verdict": verdict, **({"possibleDegrees": list(possible)} if possible else {})}
    print(json.dumps(answer, indent=1, ensure_ascii=False))


def _shared() -> list["Field[Any]"]:
    """The flags of `serve` that decide about memory, as they stand in its table."""
    names = {flag.replace("--no-", "--") for flag in KNOWN}
    return [field for field in flags() if flag_name(field) in names and flag_name(field) not in _OWN]


def _add(parser: argparse.ArgumentParser, field: "Field[Any]") -> None:
    text = f"as for `serve`: {_HELP.get(flag_name(field), field.metadata['help'])}".replace("%", "%%")
    if isinstance(field.default, bool):
        parser.add_argument(flag_name(field), action=argparse.BooleanOptionalAction, help=text)
    else:
        parser.add_argument(flag_name(field), metavar="VALUE", help=text)


def _setup(parsed: argparse.Namespace) -> Setup:
    on_gpu = parsed.device == "gpu"
    memory = parsed.gpu_memory if on_gpu else parsed.memory
    if on_gpu and memory is None:
        raise SizingError("--gpu-memory is not given: say how much memory one GPU has, such as 80Gi, or --device cpu")
    if (parsed.memory if on_gpu else parsed.gpu_memory) is not None:
        raise SizingError("--gpu-memory goes with --device gpu, --memory with --device cpu: leave one out")
    begin = Setup(
        device=parsed.device,
        memory_bytes=None if memory is None else _read("--gpu-memory" if on_gpu else "--memory", memory, _memory),
        tensor=_read(FLAGS.tensor, parsed.tensor, parse_positive),
    )
    return with_flags(begin, _given(parsed))


def _read(flag: str, text: str, parse: Callable[[str], int]) -> int:
    try:
        return parse(text)
    except SizingError as error:
        raise SizingError(f"{flag}: {error}") from error


def _memory(text: str) -> int:
    size_bytes = parse_bytes(text)
    if size_bytes < _LEAST_MEMORY_BYTES:
        raise SizingError(
            f"'{text}' is less than 1 MiB: a number without a unit counts bytes, so write one such as 80Gi"
        )
    return size_bytes


def _given(parsed: argparse.Namespace) -> list[str]:
    given = [(field, getattr(parsed, field.name)) for field in _shared()]
    return [_argument(flag_name(field), value) for field, value in given if value is not None]


def _argument(flag: str, value: object) -> str:
    if isinstance(value, bool):
        return flag if value else f"--no-{flag.removeprefix('--')}"
    return f"{flag}={value}"


def _fit(found: Inspection, setup: Setup) -> Fit:
    return fit(found.model, setup, FLAGS.tensor, FLAGS.context)


def _compared(found: Inspection, setup: Setup) -> list[Fit]:
    """For comparison: every degree that the model can be shared by in this setup."""
    return [_fit(found, dataclasses.replace(setup, tensor=degree)) for degree in degrees(found.model, setup)]


def _json(found: Inspection, answer: Fit, degrees: Sequence[Fit]) -> str:
    return json.dumps(
        {
            "fits": answer.fits,
            "verdict": verdict(answer, _words(answer)),
            "sizing": fields(answer),
            "inspection": found.to_fields(),
            "degrees": [{"tensor": one.setup.tensor, "fits": one.fits, **fields(one)} for one in degrees],
        },
        indent=1,
        ensure_ascii=False,
    )


def _text(found: Inspection, answer: Fit, degrees: Sequence[Fit]) -> str:
    model, setup = found.model, answer.setup
    whose = "each GPU" if setup.device == "gpu" else "the process"
    lines = [
        f"{found.source}: {_count_text(parameters(model))} parameters, {model.layers} layers, {model.heads} heads, "
        f"{model.kv_heads} KV heads of {model.head_dim}; computed in {setup.dtype}",
        "",
        f"of {whose} at tensor degree {setup.tensor}, in {answer.budget.usable_text or 'memory without a limit'}:",
        *(f"  {part.text:<22}{bytes_text(part.size_bytes):>12}" for part in answer.budget.parts),
        f"  {'KV cache':<22}{bytes_text(answer.kv_bytes or 0):>12}  {answer.blocks or 0:,} blocks of {setup.block_size} tokens, "
        f"{bytes_text(answer.kv_token_bytes)} a token",
        "",
        *_table(degrees),
        "",
        verdict(answer, _words(answer)),
    ]
    return "\n".join(lines)


def _count_text(count: int) -> str:
    return f"{count / 1e9:.2f} billion" if count >= 1e9 else f"{count / 1e6:.1f} million"


def _table(degrees: Sequence[Fit]) -> list[str]:
    rows: list[tuple[str, ...]] = [("tensor", "weights", "blocks", "tokens", "longest context", "fits")]
    for one in degrees:
        counts = (one.blocks or 0, one.concurrent_tokens or 0, one.largest_context_tokens or 0)
        numbers = [f"{count:,}" for count in counts]
        rows.append((str(one.setup.tensor), bytes_text(one.weights_bytes), *numbers, "yes" if one.fits else "no"))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True)) for row in rows]


def _words(answer: Fit) -> Words:
    return FLAGS if answer.setup.device == "gpu" else CPU_FLAGS
