"""Argo CD's judgement of objects, by the script that the documentation gives people for its ConfigMap."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster.kstatus import program
from tests.cluster.kubectl import Object, run_command

DOCUMENT = Path(__file__).parents[2] / "docs" / "gitops.md"
_KEY = "resource.customizations.health."


@dataclass(frozen=True)
class Health:
    status: str
    message: str


def documented_script() -> tuple[tuple[str, str], str]:
    """The group and kind, and the Lua script for it, of the ConfigMap `argocd-cm` in the documentation."""
    blocks = re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    [config] = [found for block in blocks if (found := yaml.safe_load(block)).get("kind") == "ConfigMap"]
    [(key, script)] = config["data"].items()
    assert key.startswith(_KEY)
    group, _, kind = key.removeprefix(_KEY).rpartition("_")
    return (group, kind), script


def health(objects: Sequence[Object]) -> list[Health]:
    kind, script = documented_script()
    assert {(item["apiVersion"].partition("/")[0], item["kind"]) for item in objects} == {kind}
    asked = {"script": script, "objects": list(objects)}
    told = run_command([program("argocd-health")], stdin=json.dumps(asked))
    return [Health(line["status"], line.get("message", "")) for line in map(json.loads, told.splitlines())]
