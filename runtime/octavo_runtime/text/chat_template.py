"""Messages to one prompt, by the model's own jinja template in a sandbox.

The environment is the one that template authors test with (trimmed blocks, `raise_exception`, `strftime_now`, `tojson` without
HTML escapes, loop controls): https://huggingface.co/docs/transformers/chat_templating
"""

import datetime
import json
from typing import Any, NoReturn

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment


class TemplateError(ValueError):
    """The template cannot be compiled, or it refused these messages; the text is the template's own where it has one."""


class ChatTemplate:
    """A compiled template. Rendering is pure and may run in any thread."""

    def __init__(self, source: str, special_tokens: dict[str, str]) -> None:
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols]
        )
        environment.filters["tojson"] = _to_json
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = _now
        try:
            self._template = environment.from_string(source)
        except jinja2.TemplateSyntaxError as error:
            raise TemplateError(f"the model's chat template, line {error.lineno}: {error.message}") from error
        self._special_tokens = special_tokens

    def render(self, messages: list[dict[str, Any]], add_generation_prompt: bool = True, **variables: object) -> str:
        """The prompt. Raises TemplateError with the template's own words when it refuses the messages."""
        try:
            return self._template.render(
                {"tools": None, "documents": None, **self._special_tokens, **variables},
                messages=messages,
                add_generation_prompt=add_generation_prompt,
            )
        except jinja2.TemplateError as error:
            raise TemplateError(error.message or type(error).__name__) from error
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            # Expressions of the template run as Python: a message of an unexpected shape fails in any of these ways.
            raise TemplateError(f"the model's chat template cannot take these messages: {error}") from error


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _now(layout: str) -> str:
    return datetime.datetime.now().strftime(layout)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
