"""What one run of one engine gave, in the form that its process prints it: one JSON line.

    {"engine": "octavo", "best_tok_s": 512.3, "worst_tok_s": 498.0, "single_tok_s": 61.2, "ready_s": 3.9}

`best_tok_s` and `worst_tok_s` are output tokens a second of the batch over the run's repeats, `single_tok_s` of one stream alone,
`ready_s` seconds from the start to ready. An engine that cannot measure one of them leaves it out.
"""

import dataclasses
import json
from typing import Literal

Field = Literal["best_tok_s", "worst_tok_s", "single_tok_s", "ready_s"]

_FIELDS: tuple[Field, ...] = ("best_tok_s", "worst_tok_s", "single_tok_s", "ready_s")


class LineError(ValueError):
    """A process did not print the line; the text says what is missing."""


@dataclasses.dataclass(frozen=True)
class Result:
    engine: str
    best_tok_s: float | None = None
    worst_tok_s: float | None = None
    single_tok_s: float | None = None
    ready_s: float | None = None

    def value(self, field: Field) -> float | None:
        value: float | None = getattr(self, field)
        return value

    def line(self) -> str:
        return json.dumps({key: value for key, value in dataclasses.asdict(self).items() if value is not None})


def parse(output: str) -> Result:
    """The last line of `output` that is a JSON object. Raises LineError."""
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise LineError(
            "it printed no line that is a JSON object: it should print one with best_tok_s and single_tok_s"
        )
    try:
        fields = json.loads(lines[-1])
    except json.JSONDecodeError as error:
        raise LineError(f"its last line that begins with {{ is no JSON: {error}") from error
    values = {name: _positive(name, fields.get(name)) for name in _FIELDS}
    if values["best_tok_s"] is None and values["single_tok_s"] is None:
        raise LineError("its JSON line has neither best_tok_s nor single_tok_s")
    return Result(str(fields.get("engine", "")), **values)


def _positive(name: str, value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise LineError(f"its {name} is {value!r}: a number above 0 is expected")
    return float(value)
