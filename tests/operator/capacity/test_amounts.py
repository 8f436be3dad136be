from typing import Any

import pytest

from octavo_operator.capacity import amounts


@pytest.mark.parametrize(
    ("text", "thousandths"),
    [
        pytest.param("8", 8000, id="whole"),
        pytest.param(8, 8000, id="a number"),
        pytest.param("1500m", 1500, id="thousandths"),
        pytest.param("0.5", 500, id="a fraction"),
        pytest.param("1u", 1, id="finer, rounded up"),
        pytest.param("100n", 1, id="much finer, rounded up"),
        pytest.param("2Ki", 2_048_000, id="binary"),
        pytest.param("1.5Gi", 1_610_612_736_000, id="a binary fraction"),
        pytest.param("3k", 3_000_000, id="decimal"),
        pytest.param("1e3", 1_000_000, id="an exponent"),
        pytest.param("1E", 10**21, id="exa, no exponent"),
        pytest.param("0", 0, id="nothing"),
    ],
)
def test_reads_quantities_as_the_api_server_does(text: str | int, thousandths: int) -> None:
    assert amounts.thousandths(text) == thousandths


@pytest.mark.parametrize("text", ["", "many", "1 Gi", "1GiB"])
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        amounts.thousandths(text)


def container(restart: str | None = None, limits: dict[str, str] | None = None, **requests: str) -> dict[str, Any]:
    kept = {"restartPolicy": restart} if restart else {}
    return {**kept, "resources": {"requests": requests, **({"limits": limits} if limits else {})}}


@pytest.mark.parametrize(
    ("spec", "asked"),
    [
        pytest.param(
            {"containers": [container(cpu="1"), container(cpu="500m")]}, {"cpu": 1500}, id="containers add up"
        ),
        pytest.param(
            {"containers": [container(limits={"nvidia.com/gpu": "2", "cpu": "4"}, cpu="1")]},
            {"cpu": 1000, "nvidia.com/gpu": 2000},
            id="a limit stands in for a request that is not there",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container(cpu="3")]},
            {"cpu": 3000},
            id="an init container runs alone before",
        ),
        pytest.param(
            {"containers": [container(cpu="1")], "initContainers": [container("Always", cpu="1"), container(cpu="2")]},
            {"cpu": 3000},
            id="a sidecar goes on beside the init containers after it",
        ),
        pytest.param(
            {"containers": [container(cpu="3")], "initContainers": [container("Always", cpu="1"), container(cpu="2")]},
            {"cpu": 4000},
            id="and beside the containers",
        ),
        pytest.param(
            {"containers": [container(cpu="1", memory="1k")], "resources": {"requests": {"cpu": "2"}}},
            {"cpu": 2000, "memory": 1_000_000},
            id="amounts of the whole pod replace the sum",
        ),
        pytest.param({"containers": [container(cpu="1")], "overhead": {"cpu": "250m"}}, {"cpu": 1250}, id="overhead"),
        pytest.param({"containers": [{}]}, {}, id="nothing"),
    ],
)
def test_counts_what_a_pod_asks_for_as_the_scheduler_does(spec: dict[str, Any], asked: dict[str, int]) -> None:
    assert amounts.of_pod(spec) == {**asked, "pods": 1000}


@pytest.mark.parametrize(
    ("resource", "amount", "text"),
    [
        pytest.param("nvidia.com/gpu", 2000, "2", id="whole"),
        pytest.param("cpu", 1500, "1500m", id="a part of a core"),
        pytest.param("memory", 2 * 2**30 * 1000, "2 GiB", id="gibibytes"),
        pytest.param("memory", 1536 * 2**20 * 1000, "1536 MiB", id="mebibytes"),
    ],
)
def test_tells_amounts_to_people(resource: str, amount: int, text: str) -> None:
    assert amounts.text(resource, amount) == text
