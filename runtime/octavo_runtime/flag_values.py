"""Values of flags and environment variables from their text."""

import re

from octavo_sizing import amounts
from octavo_sizing.errors import SizingError


class ConfigError(ValueError):
    """A flag has a value that cannot be, or two flags contradict each other. The text names the flag and the remedy."""


def parse_bytes(text: str) -> int:
    """`512Mi`, `2Gi`, `2GiB`, `1000000` as bytes (Kubernetes' suffixes; a trailing B is allowed)."""
    try:
        return amounts.parse_bytes(text)
    except SizingError as error:
        raise ConfigError(str(error)) from error


def parse_positive(text: str) -> int:
    try:
        return amounts.parse_positive(text)
    except SizingError as error:
        raise ConfigError(str(error)) from error


def parse_count(text: str) -> int:
    if not re.fullmatch(r"\d+", text.strip()):
        raise ConfigError(f"'{text}' is not a whole number of at least 0")
    return int(text)


def parse_warmup_sequences(text: str) -> int:
    if text.strip() not in [str(number) for number in range(5, 11)]:
        raise ConfigError(f"'{text}' is not a number of sequences to warm up with: give a whole number from 5 to 10")
    return int(text)


def parse_percent(text: str) -> int:
    if not re.fullmatch(r"\d+", text.strip()) or not 1 <= int(text) <= 100:
        raise ConfigError(f"'{text}' is not a percentage: give a whole number from 1 to 100")
    return int(text)


def parse_switch(text: str) -> bool:
    if text not in ("true", "false"):
        raise ConfigError(f"'{text}' is neither true nor false")
    return text == "true"


def parse_port(text: str) -> int:
    if not re.fullmatch(r"\d+", text.strip()) or not 1 <= int(text) <= 65535:
        raise ConfigError(f"'{text}' is not a port: give a whole number from 1 to 65535")
    return int(text)


def parse_seconds(text: str) -> float:
    return _parse_duration(text, "seconds", 1_000_000)


def parse_milliseconds(text: str) -> float:
    return _parse_duration(text, "milliseconds", 60_000)


def _parse_duration(text: str, unit: str, most: int) -> float:
    try:
        duration = float(text)
    except ValueError:
        duration = -1.0
    if not 0 <= duration <= most:
        raise ConfigError(f"'{text}' is not a number of {unit} of at least 0 and at most {most}")
    return duration
