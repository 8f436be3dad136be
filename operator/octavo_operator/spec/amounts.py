"""Quantities of a spec as canonical text. Pure."""

from octavo_operator import quantity
from octavo_operator.spec.errors import SpecError


def amount(field: str, value: str | int | None) -> str | None:
    """The canonical text of the quantity in `field`; None where it is not set. Raises SpecError."""
    if value is None:
        return None
    try:
        return quantity.canonical(value)
    except quantity.QuantityError as error:
        raise SpecError("BadQuantity", f"{field}: {error}") from error
