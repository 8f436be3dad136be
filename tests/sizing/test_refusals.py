"""What no memory helps: questions that the runtime would refuse to start with."""

import dataclasses

import pytest

from octavo_sizing.errors import ContextError, DegreeError, HeadWidthError, KvFormError
from octavo_sizing.fit import Fit, fit
from octavo_sizing.flags import with_flags
from octavo_sizing.model import Model
from octavo_sizing.report import FIELDS
from octavo_sizing.setup import KvKind, Setup
from tests.sizing.models import LLAMA_8B, QWEN2_5_7B, SMOLLM2_135M

H100 = Setup(memory_bytes=80 << 30)


def fitted(model: Model, setup: Setup) -> Fit:
    return fit(model, setup, FIELDS.tensor, FIELDS.context)


@pytest.mark.parametrize(
    ("model", "tensor", "nodes", "says", "possible"),
    [
        pytest.param(SMOLLM2_135M, 2, 1, "9 attention heads, 3 KV heads.*give one of 1, 3$", (1, 3), id="heads"),
        pytest.param(QWEN2_5_7B, 8, 1, "28 attention heads", (1, 2, 4), id="heads that 8 does not divide"),
        pytest.param(LLAMA_8B, 4, 3, "give a multiple of 3", (), id="nodes"),
    ],
)
def test_a_degree_that_cannot_be_is_refused_with_those_that_can(
    model: Model, tensor: int, nodes: int, says: str, possible: tuple[int, ...]
) -> None:
    with pytest.raises(DegreeError, match=rf"spec\.parallelism\.tensor {tensor}.*{says}") as refused:
        fitted(model, Setup(tensor=tensor, nodes=nodes))
    assert refused.value.possible == possible


def test_a_context_that_the_model_does_not_have_is_refused() -> None:
    """As the runtime does, however much memory there is."""
    asked = dataclasses.replace(H100, max_model_len=131073)
    says = r"spec\.runtime\.maxModelLen 131,073 is more than the model's 131,072 positions: lower it to 131,072"
    with pytest.raises(ContextError, match=says):
        fitted(LLAMA_8B, asked)
    assert fitted(LLAMA_8B, dataclasses.replace(asked, max_model_len=131072)).fits


@pytest.mark.parametrize(
    ("keys", "values", "says"),
    [
        ("int8", "fp8", "int8 keys and fp8 values are not for GPUs.*: leave --kv-cache-dtype-v out"),
        ("dense", "int8", "unquantized keys and int8 values are not for GPUs"),
        ("fp8", "dense", "fp8 keys and unquantized values are not for GPUs"),
    ],
)
def test_a_gpu_keeps_keys_and_values_alike(keys: KvKind, values: KvKind, says: str) -> None:
    with pytest.raises(KvFormError, match=says):
        fitted(SMOLLM2_135M, dataclasses.replace(H100, keys=keys, values=values))
    assert fitted(SMOLLM2_135M, Setup(device="cpu", keys=keys, values=values)).fits


@pytest.mark.parametrize(
    ("setup", "refused"),
    [
        pytest.param(dataclasses.replace(H100, tensor=4), True, id="GPUs"),
        pytest.param(dataclasses.replace(H100, tensor=1), False, id="one GPU"),
        pytest.param(Setup(device="cpu", tensor=4, nodes=2), True, id="CPUs of two nodes"),
        pytest.param(Setup(device="cpu", tensor=4), False, id="CPUs of one node"),
    ],
)
@pytest.mark.parametrize("flag", ["--kv-tier-memory=1Gi", "--kv-tier-disk=/cache"])
def test_ranks_apart_have_no_tiers(setup: Setup, refused: bool, flag: str) -> None:
    """As the runtime has it (`engine/ranks/leader.py`)."""
    asked = with_flags(setup, [flag])
    if not refused:
        assert fitted(LLAMA_8B, asked).fits is not False
        return
    says = rf"{flag.partition('=')[0]}.* goes with one rank only but on CPUs of one node, not with spec\.parallelism\.tensor 4"
    with pytest.raises(DegreeError, match=says) as caught:
        fitted(LLAMA_8B, asked)
    assert caught.value.possible == ((1,) if setup.nodes == 1 else ())


def test_a_gpu_takes_heads_of_at_most_256_elements() -> None:
    wide = dataclasses.replace(SMOLLM2_135M, head_dim=257)
    with pytest.raises(
        HeadWidthError, match="heads have 257 elements, and the GPU's kernels take at most 256: serve it"
    ):
        fitted(wide, H100)
    assert fitted(dataclasses.replace(wide, head_dim=256), H100).fits
    assert fitted(wide, Setup(device="cpu")).fits
