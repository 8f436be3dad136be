"""What the runtime would refuse of its command line, as far as flags that sizing knows, flags that contradict one another, and
budgets tell without it. Pure.

The CRD's schema has checked the fields; `spec.runtime.extraArgs` are only text to it.
"""

from octavo_operator.desired.flags import serve_args
from octavo_operator.service import Service
from octavo_operator.spec.errors import SpecError
from octavo_sizing.amounts import parse_positive
from octavo_sizing.errors import SizingError
from octavo_sizing.flags import with_flags
from octavo_sizing.setup import Setup

# The runtime's, of which a budget holds at least so many.
LEAST_PAGES = 4
_BUDGET = "--kv-budget-tokens"


def check(service: Service) -> None:
    """Raises SpecError with the field and the remedy."""
    try:
        page_tokens = with_flags(Setup(device=service.device), serve_args(service)).block_size
        budget = _budget(service)
    except SizingError as error:
        raise _refused(str(error)) from error
    if budget is None:
        return
    if service.runtime.chunked_prefill is False:
        raise _refused(
            f"{_BUDGET} is not for spec.runtime.chunkedPrefill false, which holds all of a prompt: remove one of them"
        )
    if budget < (least := LEAST_PAGES * page_tokens):
        raise _refused(
            f"{_BUDGET}={budget} is less than {LEAST_PAGES} pages of {page_tokens} tokens: give at least {least}"
        )


def _budget(service: Service) -> int | None:
    """The last that extraArgs give. Raises SizingError."""
    found = None
    for argument in service.runtime.extra_args:
        flag, _, value = argument.partition("=")
        if flag == _BUDGET:
            try:
                found = parse_positive(value)
            except SizingError as error:
                raise SizingError(f"{_BUDGET}: {error}") from error
    return found


def _refused(text: str) -> SpecError:
    return SpecError("ArgumentRefused", f"spec.runtime.extraArgs: {text}")
