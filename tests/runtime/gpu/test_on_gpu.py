"""The device's runner on a real GPU: nothing waits, nothing is compiled or asked of the driver after warm-up, and neither graphs
nor running ahead change a token. `make test-gpu` runs these; importing this file imports no Triton."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from octavo_runtime.config import ServeConfig
from octavo_runtime.engine.core import Engine
from octavo_runtime.engine.device_runner import DeviceRunner, RunnerLimits
from octavo_runtime.engine.early_costs import Way
from octavo_runtime.engine.pipeline import Runner
from octavo_runtime.engine.plan import StepPlan, StepResult
from octavo_runtime.messages import AddRequest, Sampling
from octavo_runtime.model.attention import AttentionShape
from octavo_runtime.model.kv_pool import KvPool
from tests.runtime.engine.tiny_engine import ask, finish, prompt
from tests.runtime.gpu.devices import MAX_MODEL_LEN, PAGE, Sizes, answers, random_decoder
from tests.runtime.gpu.random_weights import TINY
from tests.runtime.models import save_tiny_model

pytestmark = pytest.mark.gpu

SIZES = Sizes(pages=96, max_num_seqs=12, max_num_batched_tokens=64)
SEEDED = Sampling(temperature=1.2, top_p=0.95, top_k=50, min_p=0.001)


@pytest.fixture
def device() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU: torch sees none")
    return torch.device("cuda", torch.cuda.current_device())


NewRunner = Callable[[torch.dtype], DeviceRunner]


@pytest.fixture
def new_runner(device: torch.device) -> NewRunner:
    """A runner of the tiny model that is not warmed up."""

    def make(dtype: torch.dtype) -> DeviceRunner:
        from octavo_runtime.engine import gpu_model
        from octavo_runtime.model.triton_compute import TritonCompute

        limits = RunnerLimits(PAGE, SIZES.max_num_seqs, MAX_MODEL_LEN, SIZES.max_num_batched_tokens)
        decoder = random_decoder(TINY, device, TritonCompute(), dtype)
        shape = AttentionShape(TINY.heads, TINY.kv_heads, TINY.head_dim, PAGE, dtype)
        backend = gpu_model.new_backend(shape, limits, device)
        pool = KvPool(TINY.layers, SIZES.pages, backend.page_bytes, device)
        return gpu_model.new_runner(decoder, backend, pool, limits)

    return make


def requests() -> list[AddRequest]:
    """Chunks beside decodes, batches that shrink through several sizes, choices, greedy and sampled draws."""
    many = [
        ask(f"many {index}", prompt(f"many {index}", 3 + 9 * index), SEEDED, max_tokens=8 + 5 * index, seed=index)
        for index in range(9)
    ]
    greedy = ask("greedy", prompt("greedy", 50), max_tokens=20)
    return [
        *many,
        greedy,
        ask("choices", prompt("c", 20), SEEDED, max_tokens=9, n=3, seed=3, stop_ids=[1], min_tokens=3),
    ]


class Wrapped:
    """A runner of another depth, or whose calls that must not wait run with `around` set."""

    def __init__(self, runner: DeviceRunner, depth: int = 1, forbid_waiting: bool = False) -> None:
        self._runner = runner
        self._forbid_waiting = forbid_waiting
        self.depth = depth

    def submit(self, plan: StepPlan) -> None:
        self._call(self._runner.submit, plan)

    def sample(self, step: int, masks: None = None) -> None:
        self._call(self._runner.sample, step)

    def collect(self, step: int) -> StepResult:
        return self._runner.collect(step)

    def abandon(self, step: int) -> None:
        self._runner.abandon(step)

    def reset(self) -> None:
        self._runner.reset()

    def _call(self, method: Callable[..., None], argument: object) -> None:
        if self._forbid_waiting:
            torch.cuda.set_sync_debug_mode("error")
        try:
            method(argument)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def tokens(runner: Runner) -> dict[tuple[str, int], list[int]]:
    return answers(runner, requests(), SIZES).tokens


def test_submitting_and_drawing_never_wait(new_runner: NewRunner) -> None:
    runner = new_runner(torch.bfloat16)
    runner.warm_up()
    assert tokens(Wrapped(runner, forbid_waiting=True))


def test_graphs_and_running_ahead_change_no_token(new_runner: NewRunner) -> None:
    """In fp32: batches differ between depths, and bf16 rounds differently in each."""
    recorded = new_runner(torch.float32)
    recorded.warm_up()
    expected = tokens(Wrapped(new_runner(torch.float32), depth=0))
    assert tokens(new_runner(torch.float32)) == expected
    assert tokens(recorded) == expected
    assert tokens(recorded) == expected  # nothing of the first time is left


def test_after_warm_up_nothing_is_asked_of_the_driver(new_runner: NewRunner, compiled: list[str]) -> None:
    runner = new_runner(torch.bfloat16)
    runner.warm_up()
    compiled.clear()
    allocations = torch.cuda.memory_stats()["num_device_alloc"]
    free_bytes, _ = torch.cuda.mem_get_info()
    for _ in range(3):
        tokens(runner)
    assert compiled == []
    assert torch.cuda.memory_stats()["num_device_alloc"] == allocations
    assert torch.cuda.mem_get_info()[0] >= free_bytes


def test_an_engine_on_a_gpu_answers_as_on_a_cpu_and_leaves_the_reserve(device: torch.device, tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path)
    given = {}
    for kind, memory in (("cpu", 64 << 20), ("cuda", None)):
        engine = Engine(ServeConfig(str(model), device=kind, dtype="float32", kv_cache_memory=memory))
        engine.warm_up()
        given[kind] = finish(engine, requests()).tokens
        info = engine.info
        del engine
    free_bytes, total_bytes = torch.cuda.mem_get_info(device)
    torch.cuda.empty_cache()
    assert given["cuda"] == given["cpu"]
    assert (info.device, info.attention_backend, info.block_size) == (str(device), "triton", 16)
    assert free_bytes > total_bytes // 100
    assert info.kv_cache_bytes > total_bytes // 4


def test_pages_that_went_through_memory_and_disk_change_no_token(device: torch.device, tmp_path: Path) -> None:
    """Sessions whose history is larger than the pool, on a GPU with tiers and on a CPU with room for all."""
    model, tiers = (
        save_tiny_model(tmp_path / "model"),
        {"kv_tier_memory": 64 << 10, "kv_tier_disk": str(tmp_path / "tier")},
    )
    given = {}
    for kind, flags in (("cpu", {"kv_cache_memory": 64 << 20}), ("cuda", {"kv_cache_memory": 256 << 10, **tiers})):
        engine = Engine(ServeConfig(str(model), device=kind, dtype="float32", **flags))
        engine.warm_up()
        turns = [
            finish(engine, [ask(str(session), prompt(f"session {session}", length), max_tokens=8)])
            for length in (100, 140)
            for session in range(8)
        ]
        given[kind] = [turn.tokens for turn in turns]
        hits = [tier.hits_total for tier in engine.tier_stats()]
        engine.close()
    assert given["cuda"] == given["cpu"]
    assert min(hits) > 0


def in_turn(ways: tuple[Way, ...]) -> Callable[[int, int], Way]:
    turns = itertools.cycle(ways)
    return lambda queries, pages: next(turns)


@pytest.mark.parametrize(
    "ways",
    [
        pytest.param((), id="as measured"),
        pytest.param(("attend",), id="attended on the host"),
        pytest.param(("bring",), id="brought in"),
        pytest.param(("attend", "bring", "bring"), id="in turn"),
    ],
)
def test_a_request_longer_than_the_pool_answers_as_on_a_cpu_with_room(
    ways: tuple[Way, ...], device: torch.device, tmp_path: Path
) -> None:
    """And nothing is compiled for it after warm-up, whichever way steps read its early pages."""
    model = save_tiny_model(tmp_path / "model")
    below = {"kv_cache_memory": 256 << 10, "kv_overflow_memory": 1 << 20, "max_num_batched_tokens": 64}
    given = {}
    for kind, flags in (("cpu", {"kv_cache_memory": 64 << 20}), ("cuda", below)):
        engine = Engine(ServeConfig(str(model), device=kind, dtype="float32", **flags))  # type: ignore[arg-type]  # a table
        engine.warm_up()
        if kind == "cuda" and ways:
            runner = engine._runner
            assert isinstance(runner, DeviceRunner)
            assert runner.early is not None
            runner.early.choice = in_turn(ways)
        answered = finish(engine, [ask("long", prompt("long", 480), max_tokens=30)])
        given[kind] = answered.tokens
        assert kind == "cpu" or {stats.late_compilations_total for stats in answered.steps} == {0}
        pages = engine.scheduler.pool.total
        engine.close()
    assert pages * 16 < 480
    assert given["cuda"] == given["cpu"]


@pytest.fixture
def compiled(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the kernels that Triton compiles, or reads from its cache, from here on."""
    import triton

    names: list[str] = []

    def saw(*, repr: str, **ignored: Any) -> None:  # Triton's name for it
        names.append(repr)

    monkeypatch.setattr(triton.knobs.runtime, "jit_post_compile_hook", saw)
    return names
