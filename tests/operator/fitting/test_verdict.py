"""`MemoryFits` and `status.sizing` of services, by what is known of their models."""

import dataclasses
import re
from typing import Any

import pytest

from octavo_operator.desired import pod
from octavo_operator.fitting.gpu_memory import GpuMemory
from octavo_operator.fitting.inspections import Insight
from octavo_operator.fitting.verdict import Verdict, against, judge, proven, setup_of
from octavo_sizing.inspection import Inspection
from octavo_sizing.setup import Setup
from tests.operator.fitting.samples import GIB, LARGE, inspected
from tests.operator.samples import parsed
from tests.sizing.models import LLAMA_70B

SMALL = inspected()
H100 = GpuMemory(80 * GIB, 80 * GIB, "the node label nvidia.com/gpu.memory")


def judged(found: Inspection, gpu: GpuMemory | None = None, /, **spec: Any) -> Verdict:
    service = parsed(**spec)
    return judge(service, pod.template(service)["spec"], Insight("k1", found), gpu, "chat-inspect-k1")


@pytest.mark.parametrize(
    ("found", "gpu", "spec", "fits", "reason", "says"),
    [
        pytest.param(
            SMALL, None, {}, True, "NoLimit", "fits, with contexts of 8,192 tokens", id="a CPU without a limit"
        ),
        pytest.param(
            SMALL, None, {"resources": {"memory": "4Gi"}}, True, "Fits", "limit 4 GiB = 4 GiB − weights", id="a CPU"
        ),
        pytest.param(
            LARGE,
            None,
            {"resources": {"memory": "8Gi"}},
            False,
            "DoesNotFit",
            "the pod needs .* set spec.resources.memory to at least",
            id="a CPU with too little",
        ),
        pytest.param(
            LARGE, H100, {"device": "gpu"}, True, "Fits", "90 % of 80 GiB = 72 GiB − weights 14.96 GiB", id="a GPU"
        ),
        pytest.param(
            LARGE,
            None,
            {"device": "gpu"},
            None,
            "GpuMemoryUnknown",
            "not known: spec.gpu.memory is not set; at least 17.91 GiB are needed",
            id="a GPU of unknown memory",
        ),
        pytest.param(
            LARGE,
            None,
            {"device": "gpu", "gpu": {"memory": "80Gi"}},
            True,
            "Fits",
            "28,611 blocks",
            id="memory of the spec",
        ),
        pytest.param(
            LARGE,
            H100,
            {"device": "gpu", "gpu": {"memory": "24Gi"}},
            True,
            "ContextLimited",
            "at most 44,912 tokens of the model's 131,072",
            id="the spec wins over the label",
        ),
        pytest.param(
            inspected(LLAMA_70B),
            H100,
            {"device": "gpu", "parallelism": {"tensor": 1}},
            False,
            "DoesNotFit",
            "set spec.parallelism.tensor to 2 .the smallest that fits. or more: 90 % of 80 GiB",
            id="too large",
        ),
        pytest.param(
            inspected(LLAMA_70B),
            H100,
            {"device": "gpu", "parallelism": {"tensor": 2}, "runtime": {"maxModelLen": 131072}},
            False,
            "DoesNotFit",
            "or set spec.runtime.maxModelLen to at most",
            id="too long",
        ),
        pytest.param(
            LARGE,
            GpuMemory(16 * GIB, 80 * GIB, "the node label nvidia.com/gpu.memory"),
            {"device": "gpu"},
            True,
            "FitsSomeNodes",
            "not on GPUs of 16 GiB, which eligible nodes have: narrow spec.gpu.nodeSelector; otherwise it fits",
            id="on some nodes",
        ),
        pytest.param(
            LARGE,
            GpuMemory(8 * GIB, 16 * GIB, "the node label nvidia.com/gpu.memory"),
            {"device": "gpu"},
            False,
            "DoesNotFit",
            "there are 16 GiB",
            id="on no nodes",
        ),
        pytest.param(
            SMALL,
            H100,
            {"device": "gpu", "parallelism": {"tensor": 2}},
            False,
            "DegreeImpossible",
            "spec.parallelism.tensor 2: the model's 9 attention heads.*give one of 1, 3$",
            id="heads that the degree does not divide",
        ),
        pytest.param(
            LARGE,
            H100,
            {"device": "gpu", "runtime": {"maxModelLen": 200000}},
            False,
            "ContextTooLong",
            "spec.runtime.maxModelLen 200,000 is more than the model's 131,072 positions: lower it to 131,072$",
            id="a context that the model does not have",
        ),
        pytest.param(
            LARGE,
            H100,
            {"device": "gpu", "runtime": {"kvCache": {"dtype": "int8"}, "extraArgs": ["--kv-cache-dtype-v=fp8"]}},
            False,
            "KvFormImpossible",
            "int8 keys and fp8 values are not for GPUs.* leave --kv-cache-dtype-v out, or give it as --kv-cache-dtype says$",
            id="values that are kept unlike keys",
        ),
        pytest.param(
            inspected(dataclasses.replace(LLAMA_70B, head_dim=512)),
            H100,
            {"device": "gpu"},
            False,
            "HeadsTooWide",
            "heads have 512 elements, and the GPU's kernels take at most 256: serve it on CPUs$",
            id="heads that are too wide",
        ),
        pytest.param(
            LARGE,
            H100,
            {
                "device": "gpu",
                "parallelism": {"tensor": 2},
                "runtime": {"extraArgs": ["--kv-overflow-memory=1Gi"]},
            },
            False,
            "DegreeImpossible",
            "goes with one rank only, .*: leave it out, or set spec.parallelism.tensor to 1$",
            id="an overflow of several ranks",
        ),
        pytest.param(
            SMALL,
            None,
            {"runtime": {"extraArgs": ["--kv-cache-memory=lots"]}},
            None,
            "NotSized",
            "--kv-cache-memory: 'lots' is not an amount of memory",
            id="a flag that cannot be read",
        ),
    ],
)
def test_verdicts(
    found: Inspection, gpu: GpuMemory | None, spec: dict[str, Any], fits: bool | None, reason: str, says: str
) -> None:
    verdict = judged(found, gpu, **spec)
    assert (verdict.fits, verdict.reason) == (fits, reason)
    assert re.search(says, verdict.message)
    assert verdict.condition.status == {True: "True", False: "False", None: "Unknown"}[fits]


def test_what_is_not_inspected_is_unknown() -> None:
    service = parsed()
    spec = pod.template(service)["spec"]
    running = judge(service, spec, Insight("k1"), None, "chat-inspect-k1")
    assert running == Verdict(None, "Inspecting", "the model is being inspected")
    waiting = judge(service, spec, Insight("k1", waiting="Unschedulable: no node"), None, "chat-inspect-k1")
    assert waiting == Verdict(None, "Inspecting", "the model is being inspected: Unschedulable: no node")
    failed = judge(service, spec, Insight("k1", error="no such file"), None, "chat-inspect-k1")
    assert failed == Verdict(
        None, "InspectionFailed", "no such file; delete the Job chat-inspect-k1 to have it tried again"
    )


def test_sizing_is_what_the_status_shows() -> None:
    sizing = judged(LARGE, H100, device="gpu").sizing
    arithmetic = sizing["arithmetic"]
    assert {name: value for name, value in sizing.items() if name != "arithmetic"} == {
        "weightsBytes": 16_060_522_496,
        "kvBytesPerToken": 131072,
        "blocks": 28_611,
        "maxConcurrentTokens": 457_776,
        "largestContextTokens": 131_072,
        "perGpuBytes": 38_317_715_911,  # (weights, positions, CUDA, workspace and 8,193 blocks of 2 MiB) / 90 %
        "smallestTensor": 1,
    }
    assert arithmetic.endswith("28,611 blocks of 16 tokens of 128 KiB hold 457,776 tokens")
    assert "blocks" not in judged(LARGE, None, device="gpu").sizing


def test_settings_are_those_of_the_pods_command_line() -> None:
    service = parsed(
        model={"source": "file:///models/x", "dtype": "float32"},
        parallelism={"tensor": 3},
        resources={"memory": "4Gi", "cpu": 2},
        runtime={"maxModelLen": 4096, "maxNumSeqs": 8, "blockSize": 64, "extraArgs": ["--max-model-len=2048"]},
    )
    assert setup_of(service, pod.template(service)["spec"]) == Setup(
        device="cpu",
        memory_bytes=4 * GIB,
        tensor=3,
        dtype="float32",
        page_tokens=64,
        max_model_len=2048,
        max_num_seqs=8,
    )


@pytest.mark.parametrize(
    ("reported", "says"),
    [
        pytest.param(None, None, id="nobody reports"),
        pytest.param(28_000, None, id="nearly as many"),
        pytest.param(
            20_000, "pods report 20,000 KV blocks where 28,611 were predicted (-30%); it fits, with", id="fewer"
        ),
        pytest.param(
            40_000, "pods report 40,000 KV blocks where 28,611 were predicted (+40%); it fits, with", id="more"
        ),
    ],
)
def test_blocks_that_pods_report_stand_beside_those_that_were_predicted(reported: int | None, says: str | None) -> None:
    predicted = judged(LARGE, H100, device="gpu")
    found = against(predicted, reported)
    assert found.sizing.get("reportedBlocks") == reported
    assert found.message.startswith(says or predicted.message)
    assert (found.fits, found.reason) == (True, "Fits")


def test_ready_pods_prove_that_it_fits() -> None:
    doubted = judged(inspected(LLAMA_70B), H100, device="gpu")
    found = proven(doubted)
    assert (found.fits, found.reason) == (True, "Proven")
    assert found.message.startswith("pods are ready, although it does not fit: at tensor degree 1")
    fine = judged(LARGE, H100, device="gpu")
    assert proven(fine) == fine
    assert proven(dataclasses.replace(fine, fits=None)).fits is None
