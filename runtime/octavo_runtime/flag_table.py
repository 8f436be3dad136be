"""A dataclass as a table of flags: each field that is an `option` has a text, a parser and perhaps choices. `config.py` is the one.

A value from the command line, the environment or Python has to pass the same parser and choices.
"""

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import Field
from typing import TYPE_CHECKING, Any, TypeVar

from octavo_runtime.flag_values import ConfigError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")


def option(
    default: T, text: str, parse: Callable[[str], Any] = str, choices: tuple[str, ...] = ()
) -> T:  # a dataclass field typed as its value
    """A field that is also a flag."""
    field: T = dataclasses.field(default=default, metadata={"help": text, "parse": parse, "choices": choices})
    return field


def flag_fields(table: "type[DataclassInstance] | DataclassInstance") -> list["Field[Any]"]:
    """The fields that are flags, in the table's order."""
    return [field for field in dataclasses.fields(table) if "help" in field.metadata]


def flag_name(field: "Field[Any]") -> str:
    return "--" + field.name.replace("_", "-")


def environment_name(field: "Field[Any]") -> str:
    return "OCTAVO_" + field.name.upper()


def parsed(field: "Field[Any]", text: str) -> Any:
    """The value that `text` means. Raises ConfigError, which does not name the flag."""
    value = field.metadata["parse"](text)
    choices = field.metadata["choices"]
    if choices and value not in choices:
        raise ConfigError(f"'{text}' is none of {', '.join(choices)}")
    return value


def wrong_values(config: "DataclassInstance") -> Iterator[str]:
    """What the command line would refuse of values that were given in Python, one by one."""
    for field in flag_fields(config):
        value = getattr(config, field.name)
        if value is None or isinstance(value, bool):
            continue
        try:
            parsed(field, str(value))
        except ConfigError as error:
            yield f"{flag_name(field)}: {error}"
