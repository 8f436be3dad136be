"""What sizing assumes of the runtime against the runtime: its defaults, and how many bytes its pages have."""

import dataclasses

import pytest
import torch

from octavo_kernels.cpu.pages import Pages
from octavo_kernels.kv_form import KvForm, KvKind
from octavo_kernels.page_layout import KvFormat, PageLayout
from octavo_runtime import config
from octavo_runtime.cli import parser, serve_config
from octavo_runtime.engine import reservation
from octavo_runtime.engine.kv_forms import kv_forms
from octavo_runtime.model.config import ModelConfig
from octavo_runtime.model.reference_pages import ReferencePages
from octavo_sizing import flags, setup
from octavo_sizing.flags import with_flags
from octavo_sizing.kv_cache import block_bytes
from octavo_sizing.model import Model
from octavo_sizing.setup import Dtype, Setup
from octavo_sizing.sharding import local_kv_heads
from tests.sizing.models import LLAMA_8B, QWEN2_5_0_5B, SMOLLM2_135M

MODELS = [
    pytest.param(LLAMA_8B, 1, id="Llama-3.1-8B"),
    pytest.param(LLAMA_8B, 16, id="Llama-3.1-8B on 16 ranks"),
    pytest.param(SMOLLM2_135M, 3, id="SmolLM2-135M on 3 ranks"),
    pytest.param(dataclasses.replace(QWEN2_5_0_5B, head_dim=24), 1, id="pages that are rounded up"),
]
FORMATS: dict[KvKind, KvFormat] = {"dense": "dense", "int8": "int8_token", "fp8": "fp8_token"}
DTYPES: dict[Dtype, torch.dtype] = {"bfloat16": torch.bfloat16, "float32": torch.float32}


def test_defaults_are_those_of_serve() -> None:
    runtime, assumed = config.ServeConfig("/models/x"), Setup()
    assert assumed.max_num_seqs == config.DEFAULT_MAX_NUM_SEQS
    assert assumed.max_num_batched_tokens == runtime.max_num_batched_tokens
    assert assumed.memory_percent == runtime.gpu_memory_percent
    assert ("auto", *map(str, setup.PAGE_TOKENS)) == config.BLOCK_SIZES
    assert (runtime.block_size, runtime.kv_cache_dtype, runtime.dtype) == ("auto", "auto", "auto")
    assert not runtime.allow_lossy
    assert setup.DEFAULT_CPU_KV_BYTES == reservation.DEFAULT_KV_BYTES


def test_a_models_sizes_are_named_as_in_the_runtime() -> None:
    assert {field.name for field in dataclasses.fields(Model)} <= {
        field.name for field in dataclasses.fields(ModelConfig)
    }


def test_every_flag_that_counts_is_one_of_serve() -> None:
    known = {config_flag for field in config.flags() for config_flag in _spellings(field.name)}
    assert known >= flags.KNOWN


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--block-size=64"],
        ["--kv-cache-dtype=int8"],
        ["--kv-cache-dtype=fp8", "--block-size=32"],
        ["--kv-cache-dtype-v=int8"],
        ["--allow-lossy"],
        ["--allow-lossy", "--kv-cache-dtype=int8"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize(("model", "ranks"), MODELS)
def test_a_cpus_pages_have_as_many_bytes(arguments: list[str], model: Model, ranks: int) -> None:
    assumed = with_flags(Setup(device="cpu", tensor=ranks), arguments)
    forms = kv_forms(_runtime(arguments), setup.CPU_PAGE_TOKENS)
    kv_heads = local_kv_heads(model, ranks)
    pages = Pages(model.heads // ranks, kv_heads, model.head_dim, forms)
    assert block_bytes(model, assumed) == ranks * model.layers * pages.page_bytes
    assert assumed.block_size == forms[0].page_size


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("kind", ["dense", "int8", "fp8"])
@pytest.mark.parametrize(("model", "ranks"), MODELS)
def test_a_gpus_pages_have_as_many_bytes(kind: KvKind, dtype: Dtype, model: Model, ranks: int) -> None:
    assumed = Setup(tensor=ranks, dtype=dtype, keys=kind, values=kind)
    layout = PageLayout(local_kv_heads(model, ranks), model.head_dim, assumed.block_size, DTYPES[dtype], FORMATS[kind])
    assert block_bytes(model, assumed) == model.layers * layout.page_bytes


def test_pages_of_plain_torch_have_as_many_bytes() -> None:
    form = KvForm(32)
    pages = ReferencePages(form, SMOLLM2_135M.kv_heads, SMOLLM2_135M.head_dim, torch.float32)
    assert block_bytes(SMOLLM2_135M, Setup(device="cpu", dtype="float32")) == SMOLLM2_135M.layers * pages.page_bytes


def _runtime(arguments: list[str]) -> config.ServeConfig:
    return serve_config(parser().parse_args(["serve", "/models/x", *arguments]), {})


def _spellings(name: str) -> tuple[str, str]:
    dashed = name.replace("_", "-")
    return f"--{dashed}", f"--no-{dashed}"
