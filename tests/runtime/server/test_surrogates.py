from typing import Any

import pytest

from octavo_runtime.server.errors import BadRequestError
from octavo_runtime.server.surrogates import check_value

HALF = "\ud83d"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        pytest.param({"messages": [{"role": "user", "content": HALF}]}, "messages[0].content", id="content"),
        pytest.param({"prompt": ["a", f"b{HALF}"]}, "prompt[1]", id="prompt"),
        pytest.param({"stop": HALF}, "stop", id="stop"),
        pytest.param({"model": HALF, "prompt": "a"}, "model", id="model"),
        pytest.param({"user": HALF}, "user", id="user"),
        pytest.param({HALF: 1}, None, id="name of a field"),
        pytest.param({"stream_options": {HALF: 1}}, "stream_options", id="name of a field within another"),
        pytest.param([HALF], "[0]", id="not an object"),
    ],
)
def test_half_a_pair_is_refused_by_its_field(body: object, param: str | None) -> None:
    with pytest.raises(BadRequestError, match=r"half of a UTF-16 surrogate pair \(\\ud83d\) is not text") as caught:
        check_value(body)
    assert caught.value.param == param


def test_whole_characters_are_taken_at_any_depth() -> None:
    deep: Any = "\U0001f600"
    for _ in range(100_000):
        deep = [deep]
    check_value({"deep": deep, "number": 1, "nothing": None})
