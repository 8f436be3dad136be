"""What the operator writes into pods, and the CRD allows, against the runtime's own table of flags."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from octavo_operator import arguments, names
from octavo_operator.desired.flags import drain_command, serve_args
from octavo_operator.spec.runtime import FLAGS_OF_FIELDS
from octavo_runtime import cli
from octavo_runtime.config import (
    BLOCK_SIZES,
    DEFAULT_MAX_NUM_SEQS,
    DTYPES,
    KV_CACHE_DTYPES,
    ServeConfig,
    flag_name,
    flags,
)
from octavo_runtime.engine.ranks.placement import Placement, placement
from octavo_runtime.engine.selective import LEAST_PAGES
from tests.operator.samples import parsed

CRD = Path(__file__).parents[2] / "crds" / "inferenceservices.yaml"
EVERYTHING: dict[str, Any] = {
    "model": {
        "source": "hf://org/small@main",
        "servedName": "small",
        "dtype": "bfloat16",
        "tokenSecretRef": {"name": "hub"},
        "cache": {"persistentVolumeClaim": {"claimName": "weights"}},
    },
    "auth": {"apiKeySecretRef": {"name": "clients"}},
    "device": "gpu",
    "parallelism": {"tensor": 2},
    "rollout": {"drainTimeoutSeconds": 45},
    "runtime": {
        "blockSize": 64,
        "maxNumSeqs": 8,
        "maxNumBatchedTokens": 256,
        "maxModelLen": 1024,
        "schedulerDelayMs": 5,
        "chunkedPrefill": True,
        "prefixCaching": True,
        "gpuMemoryPercent": 80,
        "kvCache": {
            "memory": "1.5Gi",
            "dtype": "int8",
            "tiers": {"cpu": {"memory": "4Gi"}, "disk": {"size": "16Gi"}},
            "selective": {"budgetTokens": 4096},
        },
        "warmup": {"sequences": 6, "maxSeconds": 30, "manifestConfigMap": "shapes"},
        "degradation": {"enabled": True, "allowLossy": True},
        "extraArgs": ["--max-num-queued-reqs=7"],
    },
}


def spec_schema() -> dict[str, Any]:
    version = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]
    schema: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    return schema


def schemas(fields: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every field below `fields` by its path."""
    for name, schema in fields.items():
        yield f"{prefix}{name}", schema
        yield from schemas(schema.get("properties", {}), f"{prefix}{name}.")


def read_by_the_runtime(arguments: list[str]) -> ServeConfig:
    """The configuration that the runtime's own command line makes of the arguments."""
    return cli.serve_config(cli.parser().parse_args(arguments), {})


def test_the_runtime_understands_every_flag_as_it_is_meant() -> None:
    config = read_by_the_runtime(serve_args(parsed(**EVERYTHING)))
    assert (config.model, config.model_name) == ("hf://org/small@main", "small")
    assert dataclasses.asdict(config) == {
        **dataclasses.asdict(ServeConfig(model=config.model)),
        "served_model_name": "small",
        "device": "cuda",
        "dtype": "bfloat16",
        "tensor_parallel_size": 2,
        "block_size": "64",
        "max_num_seqs": 8,
        "max_num_batched_tokens": 256,
        "max_model_len": 1024,
        "scheduler_delay_ms": 5.0,
        "chunked_prefill": True,
        "prefix_caching": True,
        "max_num_queued_reqs": 7,
        "kv_cache_memory": 1536 * 2**20,
        "kv_cache_dtype": "int8",
        "kv_tier_memory": 4 << 30,
        "kv_tier_disk": "/var/cache/octavo-kv",
        "kv_tier_disk_size": 16 << 30,
        "kv_budget_tokens": 4096,
        "gpu_memory_percent": 80,
        "warmup_sequences": 6,
        "warmup_max_seconds": 30.0,
        "warmup_manifest": "/etc/octavo/warmup/manifest.json",
        "memory_ladder": True,
        "allow_lossy": True,
        "model_cache": "/var/cache/octavo/models",
        "hub_token_file": "/etc/octavo/hub-token/token",
        "api_key_file": "/etc/octavo/api-keys/keys",
        "host": "0.0.0.0",
        "port": 8000,
        "health_port": 8001,
        "run_dir": "/run/octavo",
        "drain_timeout": 45.0,
    }


def test_the_pods_of_a_group_find_their_place() -> None:
    """With what the LeaderWorkerSet's webhook puts into their environment."""
    config = read_by_the_runtime(serve_args(parsed(parallelism={"tensor": 6, "nodes": 3})))
    group = {"LWS_GROUP_SIZE": "3", "LWS_WORKER_INDEX": "2", "LWS_LEADER_ADDRESS": "chat-0.chat-0.demo"}
    assert placement(config, group) == Placement(size=6, nodes=3, node=2, leader="chat-0.chat-0.demo")


@pytest.mark.parametrize("chosen", [True, False])
@pytest.mark.parametrize(
    ("field", "name"),
    [
        pytest.param("chunkedPrefill", "chunked_prefill", id="chunked prefill"),
        pytest.param("prefixCaching", "prefix_caching", id="prefix caching"),
        pytest.param("degradation.enabled", "memory_ladder", id="degradation"),
        pytest.param("degradation.allowLossy", "allow_lossy", id="lossy degradation"),
    ],
)
def test_the_runtime_reads_a_switch_as_it_is_chosen(field: str, name: str, chosen: bool) -> None:
    group, _, switch = field.rpartition(".")
    runtime = {group: {switch: chosen}} if group else {switch: chosen}
    config = read_by_the_runtime(serve_args(parsed(runtime=runtime)))
    assert getattr(config, name) is chosen


def test_what_the_crd_says_of_absent_fields_is_the_runtimes_default() -> None:
    fields, defaults = spec_schema()["runtime"]["properties"], ServeConfig(model="m")
    said = {path: schema.get("description", "").partition("Absent: ")[2] for path, schema in schemas(fields)}
    assert said["maxNumSeqs"].startswith(f"automatic, which is {DEFAULT_MAX_NUM_SEQS}, halved ")
    rules = [rule["rule"] for rule in spec_schema()["runtime"]["x-kubernetes-validations"]]
    assert [rule for rule in rules if f" : {defaults.max_num_batched_tokens}) >= self.maxNumSeqs" in rule]
    assert said["maxNumBatchedTokens"] == f"the runtime's default, {defaults.max_num_batched_tokens}."
    assert said["schedulerDelayMs"] == f"the runtime's default, {defaults.scheduler_delay_ms:.0f}."
    assert said["chunkedPrefill"] == f"the runtime's default, {str(defaults.chunked_prefill).lower()}."
    assert said["prefixCaching"] == f"the runtime's default, {str(defaults.prefix_caching).lower()}."
    assert said["gpuMemoryPercent"] == f"the runtime's default, {defaults.gpu_memory_percent}."
    assert said["kvCache.dtype"].startswith(f"the runtime's default, {defaults.kv_cache_dtype}, which")
    assert said["warmup.sequences"] == f"the runtime's default, {defaults.warmup_sequences}."
    assert said["warmup.maxSeconds"] == f"the runtime's default, {defaults.warmup_max_seconds:.0f}."
    assert said["degradation.enabled"] == f"the runtime's default, {str(defaults.memory_ladder).lower()}."
    assert said["degradation.allowLossy"] == f"the runtime's default, {str(defaults.allow_lossy).lower()}."


@pytest.mark.parametrize("delay_ms", ["minimum", "maximum"])
def test_every_delay_that_the_crd_takes_reaches_the_runtime(delay_ms: str) -> None:
    limit = spec_schema()["runtime"]["properties"]["schedulerDelayMs"][delay_ms]
    assert read_by_the_runtime(serve_args(parsed(runtime={"schedulerDelayMs": limit}))).scheduler_delay_ms == limit


@pytest.mark.parametrize("amount", ["512", "512Mi", "1.5Gi", "2Ti", "1500k", "3M", "2G", 1073741824])
def test_every_amount_of_memory_that_the_crd_takes_reaches_the_runtime(amount: str | int) -> None:
    spec = parsed(runtime={"kvCache": {"memory": amount}})
    [flag] = [argument for argument in serve_args(spec) if argument.startswith("--kv-cache-memory=")]
    assert read_by_the_runtime(["serve", "file:///m", flag]).kv_cache_memory is not None


def test_the_ports_that_pods_declare_are_the_runtimes() -> None:
    defaults = ServeConfig(model="m")
    assert (defaults.port, defaults.health_port) == (names.API_PORT, names.HEALTH_PORT)


def test_the_crd_allows_the_runtimes_types_and_page_sizes() -> None:
    schema = spec_schema()
    assert schema["model"]["properties"]["dtype"]["enum"] == list(DTYPES)
    assert schema["runtime"]["properties"]["kvCache"]["properties"]["dtype"]["enum"] == list(KV_CACHE_DTYPES)
    sizes = schema["runtime"]["properties"]["blockSize"]["enum"]
    assert ["auto", *map(str, sizes)] == list(BLOCK_SIZES)


def spellings(field: "dataclasses.Field[Any]") -> set[str]:
    """How a flag can be written, without the dashes: a switch also with `no-`."""
    name = flag_name(field).removeprefix("--")
    return {name, f"no-{name}"} if isinstance(field.default, bool) else {name}


def test_extra_args_refuse_every_flag_that_the_operator_sets() -> None:
    rules = spec_schema()["runtime"]["properties"]["extraArgs"]["x-kubernetes-validations"]
    refused = set("|".join(rule["rule"].partition("^--(")[2].partition(")")[0] for rule in rules).split("|")) - {""}
    written = {argument.partition("=")[0].removeprefix("--") for argument in serve_args(parsed(**EVERYTHING))[2:-1]}
    ours = [spellings(field) for field in flags() if spellings(field) & written]
    assert len(ours) == len(written)
    assert {name for names in ours for name in names if name.removeprefix("no-") not in FLAGS_OF_FIELDS} <= refused
    assert refused | set(FLAGS_OF_FIELDS) <= set().union(*map(spellings, flags()))


@pytest.mark.parametrize("field", sorted(set(FLAGS_OF_FIELDS.values())))
def test_fields_that_came_after_their_flags_are_in_the_crd(field: str) -> None:
    assert field in dict(schemas(spec_schema()["runtime"]["properties"]))


def test_the_runtime_understands_the_drain_hook(tmp_path: Path) -> None:
    """In a folder without a running server it fails, but not for its flags (which would be exit code 2)."""
    program, *arguments = drain_command(parsed())
    assert program == "octavo"
    here = [f"--run-dir={tmp_path}" if argument.startswith("--run-dir=") else argument for argument in arguments]
    assert cli.main(here) in (0, 1)


def test_a_budget_has_at_least_as_many_pages_as_the_runtime_asks_for() -> None:
    assert arguments.LEAST_PAGES == LEAST_PAGES
    [rule] = [rule for rule in _rules() if "selective.budgetTokens >=" in rule]
    assert f">= {LEAST_PAGES} * (" in rule


def _rules() -> list[str]:
    """Of the whole spec."""
    [version] = yaml.safe_load(CRD.read_text())["spec"]["versions"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return [entry["rule"] for entry in spec["x-kubernetes-validations"]]
