"""Fields of the OpenAI API (and its common extensions) that this version cannot honour.

Clients send them at the value that changes nothing, so that value is taken; any other is an error that names the field. A
field that becomes supported leaves this table for `schema.py`.
"""

from collections.abc import Mapping
from typing import Any

from octavo_runtime.server.errors import BadRequestError

_EMPTY: tuple[object, ...] = ([], {})

COMMON: dict[str, tuple[object, ...]] = {
    "best_of": (1,),
    "frequency_penalty": (0,),
    "presence_penalty": (0,),
    "repetition_penalty": (1,),
    "logit_bias": _EMPTY,
    "logprobs": (False,),
    "prompt_logprobs": (),
    "allowed_token_ids": (),
    "bad_words": _EMPTY,
    "structured_outputs": (),
    "truncate_prompt_tokens": (),
    "service_tier": ("auto", "default"),
}
CHAT: dict[str, tuple[object, ...]] = COMMON | {
    "top_logprobs": (0,),
    "response_format": ({"type": "text"},),
    "tools": _EMPTY,
    "tool_choice": ("none", "auto"),
    "parallel_tool_calls": (True, False),
    "functions": _EMPTY,
    "function_call": ("none", "auto"),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": (),
    "verbosity": (),
    "web_search_options": (),
    "store": (False,),
    "metadata": _EMPTY,
    "continue_final_message": (False,),
}
COMPLETION: dict[str, tuple[object, ...]] = COMMON | {"suffix": ("",), "echo": (False,), "prompt_embeds": ()}
MESSAGE: dict[str, tuple[object, ...]] = {
    "tool_calls": _EMPTY,
    "tool_call_id": (),
    "function_call": (),
    "refusal": (),
    "audio": (),
    "annotations": _EMPTY,
    "reasoning_content": ("",),
}


def without_neutral(fields: Mapping[str, Any], neutral: Mapping[str, tuple[object, ...]]) -> dict[str, Any]:
    """`fields` without those of the table. Raises BadRequestError for one whose value would change something."""
    kept = {}
    for name, value in fields.items():
        if name not in neutral:
            kept[name] = value
        elif value is not None and not any(_same(value, one) for one in neutral[name]):
            raise BadRequestError(
                f"{name} is not supported by this version; {_remedy(neutral[name])}", param=name, code="unsupported"
            )
    return kept


def _same(value: object, neutral: object) -> bool:
    """Python's 0 equals False and its 1 equals True; on the wire they ask for different things."""
    return isinstance(value, bool) == isinstance(neutral, bool) and value == neutral


def _remedy(values: tuple[object, ...]) -> str:
    given = [str(value).lower() if isinstance(value, bool) else repr(value) for value in values]
    return f"leave it out or give {' or '.join(given)}" if given else "leave it out"
