"""The chart as helm renders it, and helm's own checks of it."""

import json
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest
import yaml

from tests.chart.render import CHART
from tests.cluster.onenode import binaries

Object = dict[str, Any]
VALUES: Object = {
    "operator": {"image": "registry.example/octavo-operator:1"},
    "runtime": {"image": "registry.example/rt:1"},
}


def helm(*arguments: str, values: Object | None = None) -> subprocess.CompletedProcess[str]:
    program = binaries.path("helm")
    if not program.exists():
        pytest.skip("helm is not built yet: `make cluster` builds it")
    stdin = None if values is None else json.dumps(values)
    return subprocess.run([program, *arguments], input=stdin, capture_output=True, text=True, check=False, timeout=60)


def template(values: Object, served: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """`served`: what a cluster serves, as helm learns where it asks one; empty where there is none to ask."""
    # Without a cluster to ask, helm takes the version that it was built with for the cluster's.
    words = [
        "--namespace=octavo-system",
        "--kube-version=1.37.0",
        "--values=-",
        *(f"--api-versions={each}" for each in served),
    ]
    return helm("template", "octavo", str(CHART), *words, values={**VALUES, **values})


def rendered(**values: Any) -> dict[tuple[str, str], Object]:
    """The chart's objects by kind and name."""
    done = template(values)
    assert done.returncode == 0, done.stderr
    objects = [item for item in yaml.safe_load_all(done.stdout) if item]
    return {(item["kind"], item["metadata"]["name"]): item for item in objects}


def operator_pod(objects: dict[tuple[str, str], Object]) -> Object:
    pod: Object = objects["Deployment", "octavo-operator"]["spec"]["template"]["spec"]
    return pod


def rules(objects: dict[tuple[str, str], Object], kind: str) -> list[Object]:
    found: list[Object] = objects[kind, "octavo-system-octavo-operator"]["rules"]
    return found
