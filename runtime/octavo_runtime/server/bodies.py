"""Why a body could not be read as JSON, for the client. Pure.

What is not JSON at all comes to `errors.from_validation`, from the framework.
"""

import sys

from octavo_runtime.server.errors import BadRequestError


def unread(cause: BaseException | None) -> BadRequestError | None:
    """The answer to what Python's parser raised; None for anything else."""
    if isinstance(cause, RecursionError):
        most = sys.getrecursionlimit()
        return BadRequestError(
            f"the body is nested deeper than is read, which is less than {most} levels: nest it less"
        )
    if isinstance(cause, UnicodeDecodeError):
        return BadRequestError(f"the body is not {cause.encoding.upper()} at byte {cause.start}: encode it as UTF-8")
    if isinstance(cause, ValueError):  # Python's int()
        most = sys.get_int_max_str_digits()
        return BadRequestError(f"the body has a number of more than {most} digits, which no field takes: shorten it")
    return None
