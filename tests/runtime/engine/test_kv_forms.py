"""What `--kv-cache-dtype` makes of pages, and an engine's answers over 8-bit keys and values."""

import pytest
import torch

from octavo_kernels.kv_form import KvForm
from octavo_runtime.config import ConfigError, ServeConfig
from octavo_runtime.engine.kv_forms import check_dense_type, kv_dtype_name, kv_forms


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        pytest.param({}, [KvForm(32)], id="default"),
        pytest.param({"kv_cache_dtype": "bfloat16"}, [KvForm(32)], id="bfloat16"),
        pytest.param({"kv_cache_dtype": "int8"}, [KvForm(64, "int8", "int8")], id="8 bits: twice the tokens"),
        pytest.param({"kv_cache_dtype": "fp8", "block_size": "16"}, [KvForm(16, "fp8", "fp8")], id="a size asked for"),
        pytest.param({"kv_cache_dtype_v": "int8"}, [KvForm(32, "dense", "int8")], id="values alone"),
        pytest.param(
            {"kv_cache_dtype": "fp8", "kv_cache_dtype_v": "int8"}, [KvForm(64, "fp8", "int8")], id="each its own"
        ),
        pytest.param({"kv_cache_dtype": "int8", "kv_cache_dtype_v": "bfloat16"}, [KvForm(32, "int8")], id="keys alone"),
        pytest.param({"allow_lossy": True}, [KvForm(32), KvForm(64, "int8", "int8")], id="lossy steps allowed"),
        pytest.param(
            {"allow_lossy": True, "kv_cache_dtype_v": "fp8"}, [KvForm(32, "dense", "fp8")], id="nothing to lose"
        ),
    ],
)
def test_the_forms_of_pages(flags: dict[str, object], expected: list[KvForm]) -> None:
    assert list(kv_forms(ServeConfig("m", **flags), 32)) == expected  # type: ignore[arg-type]  # a table


@pytest.mark.parametrize("flag", ["kv_cache_dtype", "kv_cache_dtype_v"])
def test_bfloat16_beside_a_model_of_another_type_is_refused(flag: str) -> None:
    config = ServeConfig("m", **{flag: "bfloat16"})  # type: ignore[arg-type]  # a table
    check_dense_type(config, torch.bfloat16)
    with pytest.raises(ConfigError, match=f"--{flag.replace('_', '-')} bfloat16: the model runs in float32: say auto"):
        check_dense_type(config, torch.float32)


@pytest.mark.parametrize(
    ("form", "name"),
    [(KvForm(16), "float32"), (KvForm(16, "int8", "int8"), "int8"), (KvForm(16, "dense", "fp8"), "float32/fp8")],
    ids=["dense", "int8", "apart"],
)
def test_a_form_is_named_by_the_words_of_the_flag(form: KvForm, name: str) -> None:
    assert kv_dtype_name(form, torch.float32) == name
