"""Amounts for people."""

_UNITS = (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))


def bytes_text(amount: int) -> str:
    """`14.96 GiB`, `128 KiB`; whole numbers without decimals."""
    if amount < 0:
        return f"−{bytes_text(-amount)}"
    for unit, size in _UNITS:
        if amount >= size:
            return f"{amount / size:.2f}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{amount} bytes"


def tokens_text(amount: int) -> str:
    return f"{amount:,} tokens"
