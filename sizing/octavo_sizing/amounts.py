"""Amounts of memory and tokens, for people and from them."""

import math
import re
from collections.abc import Callable
from fractions import Fraction

from octavo_sizing.errors import SizingError

_SHOWN = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_SUFFIXES = {"": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def bytes_text(amount: int, rounding: Callable[[float], int] = round) -> str:
    """`14.96 GiB`, `128 KiB`; whole numbers without decimals."""
    if amount < 0:
        return f"−{bytes_text(-amount)}"
    for unit, size in _SHOWN:
        if amount >= size:
            return f"{rounding(100 * amount / size) / 100:.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{amount} bytes"


def at_least_text(amount: int) -> str:
    """Never less than `amount`, for whoever types what it says."""
    return bytes_text(amount, math.ceil)


def tokens_text(amount: int) -> str:
    return f"{amount:,} tokens"


def parse_bytes(text: str) -> int:
    """`512Mi`, `2Gi`, `2GiB`, `1.5G`, `1000000` as bytes; a B behind a suffix is allowed. Raises SizingError."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]i|[kMGT])?B?", text.strip())
    if not match:
        raise SizingError(
            f"'{text}' is not an amount of memory: write bytes or a number with k, M, G, T, Ki, Mi, Gi or Ti, such as 2Gi"
        )
    return int(Fraction(match[1]) * _SUFFIXES[match[2] or ""])


def parse_positive(text: str) -> int:
    """Raises SizingError."""
    if not re.fullmatch(r"\d+", text.strip()) or int(text) < 1:
        raise SizingError(f"'{text}' is not a whole number of at least 1")
    return int(text)
