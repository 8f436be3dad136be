"""Which command lines the operator makes no pods for, since the runtime would refuse them."""

from typing import Any

import pytest

from octavo_operator import arguments
from octavo_operator.spec.errors import SpecError
from tests.operator.samples import parsed


@pytest.mark.parametrize(
    ("given", "more", "says"),
    [
        pytest.param(
            "--kv-budget-tokens=3", {}, "less than 4 pages of 32 tokens: give at least 128", id="small budget"
        ),
        pytest.param("--kv-budget-tokens=x", {}, "'x' is not a whole number of at least 1", id="no number"),
        pytest.param("--kv-budget-tokens", {}, "'' is not a whole number of at least 1", id="no value"),
        pytest.param(
            "--kv-budget-tokens=255", {"blockSize": 64}, "4 pages of 64 tokens: give at least 256", id="large pages"
        ),
        pytest.param(
            "--kv-budget-tokens=127",
            {"kvCache": {"dtype": "int8"}},
            "pages of 64 tokens: give at least 256",
            id="pages of 8 bits",
        ),
        pytest.param(
            "--kv-budget-tokens=128",
            {"chunkedPrefill": False, "maxNumBatchedTokens": 512, "maxModelLen": 512},
            "remove one of them",
            id="a budget of prompts in one step",
        ),
        pytest.param(
            "--kv-cache-dtype-v=int4", {}, "'int4' is not one of auto, bfloat16, int8, fp8", id="unknown type"
        ),
        pytest.param("--kv-overflow-memory=much", {}, "--kv-overflow-memory: ", id="no amount"),
        pytest.param("--kv-guard-percent=5", {}, "give --allow-lossy or leave it out", id="a guard of nothing"),
    ],
)
def test_names_the_field_and_the_flag_that_the_runtime_would_refuse(
    given: str, more: dict[str, Any], says: str
) -> None:
    wanted = parsed(runtime={"image": "r:1", "extraArgs": [given], **more})
    with pytest.raises(SpecError) as caught:
        arguments.check(wanted)
    assert caught.value.reason == "ArgumentRefused"
    assert str(caught.value).startswith(f"spec.runtime.extraArgs: {given.partition('=')[0]}")
    assert says in str(caught.value)


def test_on_gpus_a_budget_has_smaller_pages() -> None:
    wanted = parsed(device="gpu", runtime={"image": "r:1", "extraArgs": ["--kv-budget-tokens=63"]})
    with pytest.raises(SpecError, match="4 pages of 16 tokens: give at least 64"):
        arguments.check(wanted)


@pytest.mark.parametrize(
    "given",
    [
        pytest.param([], id="none"),
        pytest.param(["--kv-budget-tokens=128"], id="four pages"),
        pytest.param(["--kv-budget-tokens=3", "--kv-budget-tokens=128"], id="the last counts"),
        pytest.param(["--kv-cache-dtype-v=int8", "--verbose"], id="what sizing knows and what it does not"),
        pytest.param(["--kv-guard-percent=5", "--allow-lossy"], id="a guard"),
    ],
)
def test_leaves_to_the_runtime_what_it_may_take(given: list[str]) -> None:
    arguments.check(parsed(runtime={"image": "r:1", "extraArgs": given}))


def test_a_flag_may_need_what_a_field_says() -> None:
    lossy = {"image": "r:1", "extraArgs": ["--kv-guard-percent=5"], "degradation": {"allowLossy": True}}
    arguments.check(parsed(runtime=lossy))
