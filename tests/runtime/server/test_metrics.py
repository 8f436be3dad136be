import msgspec
import pytest
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from octavo_runtime import __version__
from octavo_runtime.heartbeat import PHASES, Phase
from octavo_runtime.messages import EngineInfo, Stats, StepOutputs
from octavo_runtime.server.gauges import Availability, Snapshot
from octavo_runtime.server.metrics import Metrics, SnapshotCollector

INFO = EngineInfo(
    "m", "bfloat16", "cpu", 512, 16, 100, 8, 64, 1 << 20, "reference", 256, True, True, False, 0.0, compute="torch"
)
STATS = Stats(
    running=2,
    waiting=3,
    blocks_total=100,
    blocks_used=25,
    blocks_cached=10,
    slots_filled=300,
    batch_size=2,
    step_tokens=40,
    step_prompt_tokens=38,
    step_generated_tokens=2,
    busy_s_total=1.5,
    preemptions_total=1,
    max_num_seqs=4,
    prefix_queries_tokens_total=90,
    prefix_hits_tokens_total=60,
    page_copies_total=2,
    predicted_peak_blocks=70,
    predicted_deficit_blocks=5,
    step_forecast_ratios=[0.5, 1.2],
)
IDLE = Stats(0, 0, 100, 0, 10, 0, 0, 0, 0, 0, 1.5, 1)


def metrics(
    stats: Stats | None = STATS,
    info: EngineInfo | None = INFO,
    volatility: float | None = 0.25,
    phase: Phase = "ready",
) -> Metrics:
    snapshot = Snapshot(phase, stats, info, volatility)
    return Metrics("m", SnapshotCollector("m", lambda: snapshot))


def families(one: Metrics) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(one.exposition().decode())}


def value(one: Metrics, name: str, **labels: str) -> float:
    """The sample `name` as it is on the wire."""
    wanted = {"model_name": "m", "engine": "0", **labels}
    found = [
        sample.value
        for family in families(one).values()
        for sample in family.samples
        if sample.name == name and sample.labels == wanted
    ]
    assert len(found) == 1, (name, found)
    return float(found[0])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        pytest.param("vllm:num_requests_running", 2, id="running"),
        pytest.param("vllm:num_requests_waiting", 3, id="waiting"),
        pytest.param("vllm:kv_cache_usage_perc", 0.25, id="vLLM's usage"),
        pytest.param("vllm:gpu_cache_usage_perc", 0.25, id="its name before, for endpoint pickers"),
        pytest.param("octavo_kv_block_utilization", 0.25, id="block utilization"),
        pytest.param("octavo_kv_slot_utilization", 0.75, id="slot utilization"),
        pytest.param("octavo_kv_available_volatility", 0.25, id="volatility"),
        pytest.param("octavo_kv_cached_blocks", 10, id="cached"),
        pytest.param("octavo_predicted_peak_blocks", 70, id="peak"),
        pytest.param("octavo_predicted_deficit_blocks", 5, id="deficit"),
        pytest.param("octavo_requests_waiting", 3, id="waiting, for autoscalers"),
        pytest.param("octavo_max_num_seqs", 4, id="sequences at once"),
    ],
)
def test_gauges_are_the_newest_snapshot(name: str, expected: float) -> None:
    assert value(metrics(), name) == expected


def test_phase_and_cache_configuration_are_labels() -> None:
    one = metrics()
    assert value(one, "octavo_phase", phase="ready") == 1
    assert value(one, "octavo_phase", phase="loading") == 0
    assert value(one, "vllm:cache_config_info", block_size="16", num_gpu_blocks="100") == 1
    assert value(one, "octavo_info", version=__version__, device="cpu", dtype="bfloat16", compute="torch") == 1


def test_what_is_not_known_yet_is_absent() -> None:
    names = set(families(metrics(stats=None, info=None, volatility=None)))
    assert "octavo_phase" in names
    assert not names & {"vllm:num_requests_running", "octavo_kv_slot_utilization", "octavo_kv_available_volatility"}
    assert "vllm:cache_config_info" not in names


@pytest.mark.parametrize("phase", PHASES)
def test_what_autoscalers_average_exists_only_where_a_pod_takes_requests(phase: Phase) -> None:
    """The zero of a pod that warms up would halve the mean of two."""
    names = set(families(metrics(phase=phase)))
    scaling = {"octavo_kv_block_utilization", "octavo_requests_waiting", "octavo_predicted_deficit_blocks"}
    assert names & scaling == (scaling if phase in ("ready", "pressured") else set())
    assert {"vllm:num_requests_waiting", "vllm:kv_cache_usage_perc"} <= names


def test_nothing_allocated_wastes_nothing() -> None:
    assert value(metrics(stats=IDLE), "octavo_kv_slot_utilization") == 1
    assert value(metrics(stats=IDLE), "octavo_kv_block_utilization") == 0


def test_counters_grow_with_steps() -> None:
    one = metrics()
    one.step(StepOutputs(1, [], STATS))
    one.step(StepOutputs(2, [], msgspec.structs.replace(STATS, busy_s_total=2.0, preemptions_total=4)))
    one.step(StepOutputs(3, [], IDLE))
    assert value(one, "vllm:prompt_tokens_total") == 76
    assert value(one, "vllm:generation_tokens_total") == 4
    assert value(one, "octavo_engine_busy_seconds_total") == 2.0
    assert value(one, "vllm:num_preemptions_total") == 4
    assert value(one, "octavo_batch_size_count") == 2
    assert value(one, "octavo_batch_size_bucket", le="2.0") == 2
    assert value(one, "vllm:iteration_tokens_total_sum") == 80


def test_totals_of_the_engine_become_counters_and_never_shrink() -> None:
    one = metrics()
    fewer = msgspec.structs.replace(
        STATS, prefix_queries_tokens_total=10, prefix_hits_tokens_total=0, page_copies_total=0
    )
    more = msgspec.structs.replace(
        STATS, prefix_queries_tokens_total=110, prefix_hits_tokens_total=7, page_copies_total=3, evicted_tokens_total=64
    )
    for stats in (STATS, fewer, more):
        one.step(StepOutputs(1, [], stats))
    for name in ("octavo_prefix_queries_tokens_total", "vllm:prefix_cache_queries_total"):
        assert value(one, name) == 90 + 100
    for name in ("octavo_prefix_hits_tokens_total", "vllm:prefix_cache_hits_total"):
        assert value(one, name) == 60 + 7
    assert value(one, "octavo_page_copies_total") == 2 + 3
    assert value(one, "octavo_kv_evicted_tokens_total") == 64


def test_forecasts_are_compared_with_what_came() -> None:
    one = metrics()
    one.step(StepOutputs(1, [], STATS))
    assert value(one, "octavo_output_length_over_forecast_count") == 2
    assert value(one, "octavo_output_length_over_forecast_bucket", le="1.0") == 1
    assert value(one, "octavo_output_length_over_forecast_sum") == pytest.approx(1.7)


def test_counters_go_on_after_the_engine_began_again() -> None:
    one = metrics()
    one.step(StepOutputs(1, [], STATS))
    one.engine_restarted()
    one.step(StepOutputs(1, [], msgspec.structs.replace(STATS, busy_s_total=0.5, preemptions_total=0)))
    assert value(one, "octavo_engine_busy_seconds_total") == 2.0
    assert value(one, "vllm:num_preemptions_total") == 1
    assert value(one, "octavo_engine_restarts_total") == 1


def test_ends_of_requests_are_counted_by_reason() -> None:
    one = metrics()
    one.request_ended("stop")
    assert value(one, "vllm:request_success_total", finished_reason="stop") == 1
    assert value(one, "vllm:request_success_total", finished_reason="abort") == 0


def test_every_family_says_its_type_and_what_it_is() -> None:
    vague = [
        name for name, family in families(metrics()).items() if family.type == "unknown" or not family.documentation
    ]
    assert vague == []


def test_volatility_is_the_deviation_of_what_is_available() -> None:
    availability = Availability()
    assert availability.volatility() is None
    availability.sample(None)
    assert availability.volatility() is None
    for stats in (STATS, IDLE):
        availability.sample(stats)
    assert availability.volatility() == pytest.approx(0.125)  # of 0.75 and 1.0
