"""Flags that cannot be together: the operator, `octavo fit` and the runtime say the same of them."""

import dataclasses
import re

import pytest

from octavo_runtime.cli import parser, serve_config
from octavo_runtime.config import ConfigError, ServeConfig
from octavo_sizing.contradictions import GivenFlags
from octavo_sizing.errors import SizingError
from octavo_sizing.flags import with_flags
from octavo_sizing.setup import Setup


def test_what_is_not_given_is_as_serve_has_it() -> None:
    served = ServeConfig("/models/x")
    assert dataclasses.asdict(GivenFlags()) == {
        field.name: getattr(served, field.name) for field in dataclasses.fields(GivenFlags)
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["--max-model-len=1"], "--max-model-len 1 is too short for a prompt and an answer", id="context"),
        pytest.param(["--kv-tier-disk-size=1Gi"], "bounds a folder that is not given", id="a size of no folder"),
        pytest.param(["--kv-tier-memory=1Gi", "--no-prefix-caching"], "leave one of them out", id="a tier of nothing"),
        pytest.param(["--allow-lossy", "--no-memory-ladder"], "turns it off: leave one out", id="steps of no ladder"),
        pytest.param(["--allow-lossy", "--no-allow-lossy", "--kv-guard-percent", "5"], "give --allow-lossy", id="last"),
    ],
)
def test_flags_that_cannot_be_together_are_told_as_the_runtime_does(arguments: list[str], says: str) -> None:
    with pytest.raises(SizingError, match=says) as caught:
        with_flags(Setup(), arguments)
    config = parser().parse_args(["serve", "m", *arguments])
    with pytest.raises(ConfigError, match=re.escape(str(caught.value))):
        serve_config(config, {})
