"""Which device a rank takes, on machines whose GPUs are only said to be there."""

import pytest
import torch

from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.devices import device_of
from octavo_runtime.engine.ranks.placement import Placement


@pytest.fixture
def two_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.mark.usefixtures("two_gpus")
def test_the_ranks_of_a_node_take_its_gpus_in_order() -> None:
    config = ServeConfig("model", tensor_parallel_size=4)
    second = Placement(4, nodes=2, node=1, leader="first")
    assert [device_of(config, second, rank).index for rank in second.ranks_here] == [0, 1]


@pytest.mark.usefixtures("two_gpus")
def test_more_gpus_than_there_are_is_an_error_with_both_numbers() -> None:
    config = ServeConfig("model", tensor_parallel_size=4)
    with pytest.raises(
        ConfigError, match=r"--tensor-parallel-size 4: 4 GPUs are needed on this node, and torch sees 2: lower it"
    ):
        device_of(config, Placement(4), 0)


@pytest.mark.usefixtures("two_gpus")
def test_ranks_on_cpus_are_as_many_as_one_likes() -> None:
    config = ServeConfig("model", tensor_parallel_size=4, device="cpu")
    assert device_of(config, Placement(4), 3) == torch.device("cpu")
