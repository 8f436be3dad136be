"""How fast something was lately. Pure."""

_NEWEST_WEIGHS = 0.25


class Speed:
    """Units a second, of which the newest measurements weigh most."""

    def __init__(self) -> None:
        self._units = self._seconds = 0.0

    def record(self, units: float, seconds: float) -> None:
        """Large pieces count for more than small ones."""
        kept = 1.0 - _NEWEST_WEIGHS
        self._units = kept * self._units + units
        self._seconds = kept * self._seconds + max(seconds, 1e-9)

    def seconds_for(self, units: float) -> float | None:
        """None while nothing was measured."""
        return None if not self._units else units * self._seconds / self._units
