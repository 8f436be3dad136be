"""Some services at once, whose pods kwok plays: what `octavo bench operator_scale` measures, held to what each service may cost."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.operator_scale_run import GPU_MEMORY, INSPECTION, Figures, Fleet, made, measure
from tests.cluster.fake_nodes import fake_nodes
from tests.cluster.kubectl import Kubectl
from tests.cluster.lonely import without_operator

FLEET = Fleet(20, ("octavo-scale-test",), ("--namespace=octavo-scale-test",), quiet_s=8.0)
pytestmark = pytest.mark.usefixtures("own_cluster")


@pytest.fixture(scope="module")
def measured(cluster: Kubectl, octavo: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Figures]:
    folder: Path = tmp_path_factory.mktemp("scale")
    capacity = {"nvidia.com/gpu": "100"}
    with (
        without_operator(octavo),
        fake_nodes(cluster, folder, ["scale-test"], capacity=capacity, labels=GPU_MEMORY, inspection=INSPECTION),
        made(cluster, FLEET.namespaces),
    ):
        yield measure(cluster.access, FLEET, idle_s=8.0, limit_s=180.0, log=folder / "operator.log")


def test_all_become_ready(measured: Figures) -> None:
    assert measured.ready == FLEET.services


def test_writes_nothing_once_all_are_ready(measured: Figures) -> None:
    assert measured.idle_writes == 0


def test_each_costs_few_requests_and_writes(measured: Figures) -> None:
    # Deployment, Service, a status for each step of the way, an Event. How many steps are seen depends on how fast pods come.
    assert measured.writes / FLEET.services <= 11
    assert measured.requests / FLEET.services <= 20


def test_keeps_small(measured: Figures) -> None:
    assert measured.peak_bytes <= 120 * 2**20
