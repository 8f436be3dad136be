"""Kubernetes quantities in their canonical text.

The API server rewrites `1024Mi` to `1Gi` and `0.5` to `500m`; what the operator applies must read the same after that, or it
would see a difference for ever. Rules: apimachinery `resource.Quantity.CanonicalizeBytes`.
"""

import re
from decimal import Decimal

_BINARY = ["", "Ki", "Mi", "Gi", "Ti", "Pi"]
_DECIMAL = {"m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15}
_TEXT = re.compile(r"(\d+(?:\.\d+)?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?")


class QuantityError(ValueError):
    """The text is not a quantity; the message names it and the remedy."""


def canonical(value: str | int) -> str:
    """The text that the API server stores for `value` (`0.5` → `500m`, `1024Mi` → `1Gi`).

    Raises QuantityError where `value` is no quantity, or finer than a thousandth.
    """
    match = _TEXT.fullmatch(str(value))
    if match is None:
        raise QuantityError(f"'{value}' is not a quantity: write a number with at most one suffix, such as 500m or 2Gi")
    number, suffix = Decimal(match[1]), match[2] or ""
    if suffix not in _DECIMAL:
        amount = number * 1024 ** _BINARY.index(suffix)
        if amount == amount.to_integral_value() and amount >= 1024:
            return _binary(int(amount))
    else:
        amount = number.scaleb(_DECIMAL[suffix])
    return _decimal(amount, str(value))


def _binary(amount: int) -> str:
    power = 0
    while amount % 1024 == 0 and power + 1 < len(_BINARY):
        amount, power = amount // 1024, power + 1
    return f"{amount}{_BINARY[power]}"


def _decimal(amount: Decimal, text: str) -> str:
    thousandths = amount.scaleb(3)
    if thousandths != thousandths.to_integral_value():
        raise QuantityError(f"'{text}' is finer than a thousandth: write at most three decimals")
    whole = int(thousandths)
    if whole == 0:
        return "0"
    suffixes = list(_DECIMAL)
    position = 0
    while whole % 1000 == 0 and position + 1 < len(suffixes):
        whole, position = whole // 1000, position + 1
    return f"{whole}{suffixes[position]}"
