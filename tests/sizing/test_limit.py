"""The memory of CPU pods that nobody gave any is enough for what they do by default."""

import dataclasses

import pytest

from octavo_sizing.fit import fit
from octavo_sizing.limit import cpu_limit_bytes
from octavo_sizing.model import Model
from octavo_sizing.setup import Setup
from tests.sizing.models import LLAMA_8B, QWEN2_5_0_5B, SMOLLM2_135M

MIB = 1 << 20
CPU = Setup(device="cpu")


@pytest.mark.parametrize(
    ("model", "setup", "kv_bytes"),
    [
        pytest.param(SMOLLM2_135M, CPU, 512 * MIB, id="a small model: 512 MiB"),
        pytest.param(LLAMA_8B, CPU, 2048 * MIB, id="a long context: 2 GiB"),
        pytest.param(
            QWEN2_5_0_5B, dataclasses.replace(CPU, max_model_len=4096), 512 * MIB, id="a context that is asked for"
        ),
        pytest.param(SMOLLM2_135M, dataclasses.replace(CPU, tensor=3), 512 * MIB, id="three ranks"),
    ],
)
def test_an_automatic_pool_gets_its_share(model: Model, setup: Setup, kv_bytes: int) -> None:
    limit = cpu_limit_bytes(model, setup)
    assert limit % (64 * MIB) == 0
    found = fit(model, dataclasses.replace(setup, memory_bytes=limit), "--tensor", "--max-model-len")
    assert found.fits
    assert found.kv_bytes is not None
    assert kv_bytes <= found.kv_bytes <= kv_bytes + 256 * MIB


def test_a_pool_that_is_asked_for_fits_and_little_more() -> None:
    asked = dataclasses.replace(CPU, kv_bytes=128 * MIB, tier_bytes=1024 * MIB)
    limit = cpu_limit_bytes(SMOLLM2_135M, asked)
    assert fit(SMOLLM2_135M, dataclasses.replace(asked, memory_bytes=limit), "--tensor", "--max-model-len").fits
    assert not fit(
        SMOLLM2_135M, dataclasses.replace(asked, memory_bytes=limit - 65 * MIB), "--tensor", "--max-model-len"
    ).fits
