"""The library of the best tier that this CPU supports, by ctypes: pointers and sizes; `kernels.py` puts tensors around it."""

import ctypes
import dataclasses
import os
from ctypes import POINTER, Structure, c_float, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from octavo_kernels.cpu.tier import cpu_flags, source_number, supported


class PackedWeight(Structure):
    _fields_ = (
        *(("panels", c_void_p), ("scales", c_void_p), ("n", c_int32), ("k", c_int32), ("terms", c_int32)),
        ("panel_bytes", c_size_t),
    )


class Shape(Structure):
    """How attention's tensors lie; `keys` and `values` are kinds by their number, `page_bytes` is from one page to the next."""

    _fields_ = (
        *((name, c_int32) for name in ("heads", "kv_heads", "dim", "page", "keys", "values")),
        ("page_bytes", c_int64),
    )


class Layer(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("attention_norm", "mlp_norm", "qkv_bias", "q_norm", "k_norm")),
        *((name, PackedWeight) for name in ("qkv", "out", "gate_up", "down")),
    )


class Model(Structure):
    _fields_ = (
        *(("shapes", POINTER(Shape)), ("hidden", c_int32), ("wide", c_int32), ("window", c_int32)),
        *(("eps", c_float), ("scale", c_float), ("cos", c_void_p), ("sin", c_void_p)),
    )


class Importance(Structure):
    """`sequences` by their place in the batch; `stride` is from one's row of `mass` to the next."""

    _fields_ = (("sequences", c_void_p), ("mass", c_void_p), ("stride", c_size_t), ("count", c_int32))


class Step(Structure):
    _fields_ = (
        *((name, c_void_p) for name in ("positions", "slot_map", "page_table", "cu_q", "kv_len")),
        *((name, c_void_p) for name in ("token_forms", "sequence_forms")),
        *(("table_stride", c_size_t), ("tokens", c_int32), ("sequences", c_int32), ("importance", Importance)),
    )


class Draw(Structure):
    _fields_ = (("seed", c_uint64), ("row", c_int32), ("position", c_uint32), ("temperature", c_float))


class UnavailableError(RuntimeError):
    """The kernels cannot run here; the text says why and what would help."""


_BUILD = "run `python -m octavo_kernels.cpu.build` where g++ is"

_ARGUMENTS: dict[str, tuple[type, ...]] = {
    "octavo_draw": (c_void_p, c_int, POINTER(Draw), c_int, c_void_p),
    "octavo_rank": (c_void_p, c_int, c_void_p, c_void_p, c_int, c_int, c_void_p, c_void_p),
    "octavo_layers": (POINTER(Model), POINTER(Layer), c_int, POINTER(c_void_p), POINTER(Step), c_void_p),
    "octavo_pack": (c_void_p, POINTER(PackedWeight)),
    "octavo_rows": (POINTER(PackedWeight), c_void_p, c_int, c_void_p),
    "octavo_linear": (POINTER(PackedWeight), c_void_p, c_int, c_void_p, c_size_t, c_int, c_void_p),
    "octavo_add_rms_norm": (c_void_p, c_void_p, c_void_p, c_float, c_int, c_int, c_void_p),
    "octavo_rotate_and_write": (
        *(POINTER(Shape), c_void_p, c_void_p, c_int, c_void_p, c_void_p, c_void_p),
        *(c_void_p, c_void_p, c_float, c_void_p, c_void_p),
    ),
    "octavo_attend": (
        *(POINTER(Shape), c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_size_t),
        *(c_void_p, c_void_p, c_int, c_float, c_int, c_void_p),
    ),
    "octavo_weigh": (
        *(POINTER(Shape), c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_size_t),
        *(c_void_p, c_void_p, c_float, POINTER(Importance)),
    ),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Library:
    """The functions of a tier, with their argument types set and their threads started."""

    tier: str
    functions: ctypes.CDLL


def open_library(path: Path, tier: str, threads: int) -> Library:
    """Load a tier's library and start its threads, the caller's being one.

    Raises UnavailableError where the file is none, was compiled from another source, or the kernel refuses its instructions.
    """
    try:
        functions = ctypes.CDLL(str(path))
        functions.octavo_build.restype = c_uint32
        if functions.octavo_build() != source_number():
            raise UnavailableError(f"{path} was compiled from another source: {_BUILD}")
        for name, arguments in _ARGUMENTS.items():
            function = getattr(functions, name)
            function.argtypes, function.restype = arguments, None
        functions.octavo_weight.argtypes = (c_void_p, c_int, c_int, POINTER(PackedWeight))
        functions.octavo_weight.restype = c_size_t
        error = functions.octavo_start(threads)
    except (OSError, AttributeError) as error_of_file:
        raise UnavailableError(f"{path} is no library of the kernels ({error_of_file}): {_BUILD}") from error_of_file
    if error:
        raise UnavailableError(f"tier {tier}: {os.strerror(error)}")
    return Library(tier, functions)


def best_library(threads: int, flags: frozenset[str] | None = None) -> Library:
    """The library of the best tier that was compiled and runs here. Raises UnavailableError."""
    tiers = supported(cpu_flags() if flags is None else flags)
    refused = [] if tiers else ["this CPU has no AVX2"]
    for tier in tiers:
        if not tier.library.exists():
            refused.append(
                f"{tier.library.name} was not compiled: run `python -m octavo_kernels.cpu.build` where g++ is"
            )
            continue
        try:
            return open_library(tier.library, tier.name, threads)
        except UnavailableError as error:
            refused.append(str(error))
    raise UnavailableError("; ".join(refused))
