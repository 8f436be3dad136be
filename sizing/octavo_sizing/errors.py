"""What can be wrong with a question about sizes.

    SizingError
     ├ InspectionError   what was read about a model is not what `octavo inspect` writes
     ├ DegreeError       so many ranks cannot share the model, however much memory they have; `possible` ones can
     ├ ContextError      the context that is asked for is longer than the model's own, and the runtime refuses to start
     ├ KvFormError       the device has no kernels for keys and values that are kept so, and the runtime refuses to start
     └ HeadWidthError    the device has no kernels for heads that are so wide, and the runtime refuses to start

Texts name the value, what is wrong with it and the remedy.
"""

from collections.abc import Sequence


class SizingError(ValueError):
    """Something about sizes cannot be."""


class InspectionError(SizingError):
    pass


class DegreeError(SizingError):
    def __init__(self, message: str, possible: Sequence[int]) -> None:
        super().__init__(message)
        self.possible = tuple(possible)


class ContextError(SizingError):
    pass


class KvFormError(SizingError):
    pass


class HeadWidthError(SizingError):
    pass
