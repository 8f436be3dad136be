"""A condition of an InferenceService's status as a value. Pure.

Each feature computes its own in a pure function; `reports` collects them and `status` writes them down.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Condition:
    """`status` is True, False or Unknown as text; `reason` one word for machines, `message` a sentence for people.

    Neither holds what changes by itself (counters, times): a status is written only where it differs.
    """

    type: str
    status: str
    reason: str
    message: str

    @classmethod
    def of(cls, kind: str, holds: bool | None, reason: str, message: str) -> "Condition":
        """None is Unknown."""
        return cls(kind, "Unknown" if holds is None else str(holds), reason, message)


@dataclasses.dataclass(frozen=True)
class Withheld:
    """Why no pods of the current spec are made; `for_good`: nothing but a change helps."""

    reason: str
    message: str
    for_good: bool = True
