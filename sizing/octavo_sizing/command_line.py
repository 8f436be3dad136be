"""A command line of `octavo serve` as pairs of flag and value."""

from collections.abc import Iterable, Iterator


def pairs(arguments: Iterable[str]) -> Iterator[tuple[str, str | None]]:
    """Flags with their values, as `--flag=value` or `--flag value`."""
    waiting: str | None = None
    for argument in arguments:
        if not argument.startswith("--"):
            if waiting is not None:
                yield waiting, argument
            waiting = None
            continue
        if waiting is not None:
            yield waiting, None
        flag, separator, value = argument.partition("=")
        if separator:
            yield flag, value
        waiting = None if separator else flag
    if waiting is not None:
        yield waiting, None
