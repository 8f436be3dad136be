"""The CRD and the chart's copy of it, as text and by the rules that every field has to keep."""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from octavo_operator import autoscaling, monitoring, routing
from octavo_operator.fitting import verdict
from octavo_operator.state import degradation
from tests.chart.render import COPY, SOURCE, chart_crd

Schema = dict[str, Any]


def test_the_charts_copy_is_current() -> None:
    assert COPY.read_text() == chart_crd(SOURCE.read_text()), "run `make chart`"


def test_the_charts_copy_is_the_crd_and_stays_when_the_release_goes() -> None:
    template = COPY.read_text().splitlines()
    copy = yaml.safe_load("\n".join(line for line in template if not line.startswith("{{")))
    assert copy["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert copy == yaml.safe_load(SOURCE.read_text())


def schemas(schema: Schema, path: str) -> Iterator[tuple[str, Schema]]:
    """Every schema below `schema` with its path."""
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from schemas(below, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from schemas(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from schemas(schema["additionalProperties"], f"{path}{{}}")


def fields() -> list[tuple[str, Schema]]:
    version = yaml.safe_load(SOURCE.read_text())["spec"]["versions"][0]
    root = version["schema"]["openAPIV3Schema"]
    return [(path, schema) for path, schema in schemas(root, "") if path.startswith(("spec", "status"))]


def test_every_field_explains_itself() -> None:
    assert not [path for path, schema in fields() if not path.endswith(("[]", "{}")) and not schema.get("description")]


def test_every_string_list_and_map_is_bounded() -> None:
    def unbounded(schema: Schema) -> bool:
        if schema.get("x-kubernetes-int-or-string") or schema["type"] == "string":
            return not ({"maxLength", "enum", "format"} & schema.keys())
        if schema["type"] == "array":
            return "maxItems" not in schema or "x-kubernetes-list-type" not in schema
        return "additionalProperties" in schema and "maxProperties" not in schema

    assert not [path for path, schema in fields() if unbounded(schema)]


def test_every_number_of_the_spec_has_both_limits_or_few_values() -> None:
    numbers = [
        (path, schema) for path, schema in fields() if schema.get("type") == "integer" and path.startswith("spec")
    ]
    bounded = [path for path, schema in numbers if {"minimum", "maximum"} <= schema.keys() or "enum" in schema]
    assert {path for path, _ in numbers} - set(bounded) == {"spec.gpu.tolerations[].tolerationSeconds"}


def test_replicas_has_no_default_and_a_new_status_is_nobodys() -> None:
    known = dict(fields())
    assert "default" not in known["spec.replicas"]
    assert known["status"]["default"] == {"observedGeneration": -1}


def test_the_conditions_are_listed_where_people_look() -> None:
    page = (SOURCE.parents[1] / "docs" / "status.md").read_text()
    table = page.partition("## Conditions")[2].partition("\n## ")[0]
    documented = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    features = {autoscaling.TYPE, degradation.TYPE, monitoring.TYPE, routing.TYPE, verdict.CONDITION}
    assert features | {"Ready", "Available", "Reconciling", "Stalled", "SpecValid"} <= documented
    described = dict(fields())["status.conditions"]["description"]
    assert documented == {name for name in re.findall(r"\w+", described) if name in documented}


def test_every_rule_has_a_message_that_names_the_remedy() -> None:
    version = yaml.safe_load(SOURCE.read_text())["spec"]["versions"][0]
    rules = [
        rule
        for _, schema in schemas(version["schema"]["openAPIV3Schema"], "")
        for rule in schema.get("x-kubernetes-validations", ())
    ]
    remedies = ("correct it", "remove", "choose", "write", "use ", "raise", "make", "add ")
    assert rules
    assert not [rule for rule in rules if not any(word in rule["message"].lower() for word in remedies)]
