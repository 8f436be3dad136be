"""What the API server refuses, and takes, of an InferenceService's fields: settings of the runtime."""

from typing import Any

import pytest

from tests.cluster.kubectl import Kubectl
from tests.cluster.schema import refusal, stored
from tests.operator.live import service


def budget(tokens: int, **more: Any) -> dict[str, Any]:
    return {"kvCache": {"selective": {"budgetTokens": tokens}, **more}}


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        pytest.param(
            {"runtime": {"kvCache": {"memory": 1048575}}}, "at least 1048576: add a unit", id="KV memory without a unit"
        ),
        pytest.param({"runtime": {"maxModelLen": 1}}, "greater than or equal to 2", id="no room for an answer"),
        pytest.param({"runtime": {"kvCache": {"memory": "0Mi"}}}, "more than zero bytes", id="no KV memory"),
        pytest.param({"runtime": {"blockSize": 17}}, "Unsupported value", id="odd page size"),
        pytest.param(
            {"runtime": {"maxNumSeqs": 64, "maxNumBatchedTokens": 32}},
            "raise maxNumBatchedTokens",
            id="fewer tokens than sequences",
        ),
        pytest.param(
            {"runtime": {"maxNumSeqs": 513}},
            "raise maxNumBatchedTokens",
            id="fewer tokens than sequences by default",
        ),
        pytest.param({"runtime": {"schedulerDelayMs": -1}}, "greater than or equal to 0", id="negative delay"),
        pytest.param({"runtime": {"schedulerDelayMs": 1001}}, "less than or equal to 1000", id="delay too long"),
        pytest.param({"runtime": {"schedulerDelayMs": 0.5}}, "must be of type integer", id="part of a millisecond"),
        pytest.param({"runtime": {"prefixCaching": "no"}}, "must be of type boolean", id="switch in words"),
        pytest.param({"runtime": {"chunkedPrefill": False}}, "add both maxNumBatchedTokens and", id="no chunks alone"),
        pytest.param(
            {"runtime": {"chunkedPrefill": False, "maxModelLen": 512}},
            "add both maxNumBatchedTokens and",
            id="no chunks and no step's length",
        ),
        pytest.param(
            {"runtime": {"chunkedPrefill": False, "maxNumBatchedTokens": 512}},
            "add both maxNumBatchedTokens and",
            id="no chunks and no prompt's length",
        ),
        pytest.param(
            {"runtime": {"chunkedPrefill": False, "maxNumBatchedTokens": 511, "maxModelLen": 512}},
            "raise maxNumBatchedTokens, lower maxModelLen",
            id="no chunks and a longer prompt",
        ),
        pytest.param({"runtime": {"extraArgs": ["verbose"]}}, "must be --flag=value", id="argument that is no flag"),
        pytest.param({"runtime": {"extraArgs": ["--port=1"]}}, "which the operator sets", id="flag of the operator"),
        pytest.param({"runtime": {"extraArgs": ["--device=cpu"]}}, "what has a field", id="flag with a field"),
        pytest.param({"runtime": {"extraArgs": ["--no-prefix-caching"]}}, "has a field", id="switch with a field"),
        pytest.param({"runtime": {"upgrade": "Never"}}, "Unsupported value", id="unknown upgrade"),
        pytest.param({"runtime": {"gpuMemoryPercent": 0}}, "greater than or equal to 1", id="no GPU memory"),
        pytest.param({"runtime": {"kvCache": {"dtype": "int4"}}}, "Unsupported value", id="unknown KV format"),
        pytest.param(
            {"runtime": {"prefixCaching": False, "kvCache": {"tiers": {"cpu": {"memory": "1Gi"}}}}},
            "remove one of them",
            id="tier that nothing is found in",
        ),
        pytest.param({"runtime": budget(127)}, "raise budgetTokens", id="budget below four pages"),
        pytest.param({"runtime": budget(255, dtype="int8")}, "raise budgetTokens", id="budget below four 8-bit pages"),
        pytest.param(
            {"runtime": {"blockSize": 64, **budget(255)}}, "raise budgetTokens", id="budget below four large pages"
        ),
        pytest.param({"runtime": {"warmup": {"sequences": 4}}}, "greater than or equal to 5", id="short warm-up"),
        pytest.param(
            {"runtime": {"degradation": {"enabled": False, "allowLossy": True}}},
            "remove one of them",
            id="loss without degradation",
        ),
        pytest.param({"runtime": {"image": "a b"}}, "must not contain spaces", id="image with a space"),
    ],
)
def test_refuses_what_cannot_be_and_says_how_to_mend_it(octavo: Kubectl, spec: dict[str, Any], says: str) -> None:
    assert says in refusal(octavo, service("schema", **spec))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"runtime": {"kvCache": {"memory": 1048576}, "maxModelLen": 2}}, id="the least there can be"),
        pytest.param({"runtime": {"schedulerDelayMs": 0, "prefixCaching": False}}, id="no delay and no prefix caching"),
        pytest.param({"runtime": {"schedulerDelayMs": 1000, "chunkedPrefill": True}}, id="the longest delay, chunks"),
        pytest.param(
            {"runtime": {"chunkedPrefill": False, "maxNumBatchedTokens": 512, "maxModelLen": 512}},
            id="no chunks and steps that hold a prompt",
        ),
        pytest.param({"runtime": budget(128)}, id="a budget of four pages"),
        pytest.param({"runtime": {"blockSize": 16, **budget(64, dtype="int8")}}, id="a budget of four small pages"),
        pytest.param({"runtime": {"extraArgs": ["--max-num-queued-reqs=1", "--verbose"]}}, id="other flags"),
    ],
)
def test_takes_what_can_be(octavo: Kubectl, spec: dict[str, Any]) -> None:
    stored(octavo, service("a" * 40, **spec))
