"""Which series the runtime and the operator export, and which a PromQL expression reads."""

import re
from collections.abc import Iterable
from pathlib import Path

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from octavo_runtime.messages import EngineInfo, Stats, TierStats
from octavo_runtime.server.gauges import Snapshot
from octavo_runtime.server.metrics import Metrics, SnapshotCollector

OPERATOR_SOURCE = Path(__file__).parents[2] / "operator" / "octavo_operator" / "metrics.py"
_WORD = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")


def exported() -> set[str]:
    """What a pod's `/metrics` has while it serves."""
    stats = Stats(1, 1, 100, 25, 10, 300, 2, 40, 38, 2, 1.5, 1, tiers=[TierStats("memory", 1, 1)])
    info = EngineInfo("m", "bfloat16", "cpu", 512, 16, 100, 8, 64, 1 << 20, "reference", 256, True, True, False, 0.0)
    metrics = Metrics("m", SnapshotCollector("m", lambda: Snapshot("ready", stats, info, 0.1)))
    families: Iterable[Metric] = text_string_to_metric_families(metrics.exposition().decode())
    return {sample.name for family in families for sample in family.samples}


def of_the_operator() -> set[str]:
    """As the source spells them, with what Prometheus adds."""
    source = OPERATOR_SOURCE.read_text()
    counters = [f"octavo_operator_{name}" for name in re.findall(r'_counter\("(\w+)"', source)]
    found = [*counters, *re.findall(r'"(octavo_operator_\w+)"', source)]
    return {name + suffix for name in found for suffix in ("", "_total", "_bucket")}


def series(expression: str) -> set[str]:
    """The series that a PromQL expression reads."""
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]|\b(by|on|without|ignoring) \([^)]*\)", " ", expression)
    bare = re.sub(r"\b\w+(?=\s*\()", " ", bare)
    return {word for word in _WORD.findall(bare) if word not in ("by", "on", "and", "or", "unless")}
