"""The chart's rules against what the operator's code reads and writes: no right is missing, none is left over."""

import json

from octavo_operator import kinds
from tests.chart.rendering import rendered, rules

WATCHED = {"list", "watch"}
KEPT = {"create", "get", "patch", *WATCHED}
NEEDED: dict[tuple[str, str], set[str]] = {
    ("", "nodes"): {"list"},
    ("", "persistentvolumeclaims"): {"get"},
    # Deletion costs are patched; the operator makes and deletes no pod.
    ("", "pods"): {"patch", *WATCHED},
    ("apps", "replicasets"): {"list"},
    ("events.k8s.io", "events"): {"create", "patch"},
    ("serving.octavo.dev", "inferenceservices"): {"get", *WATCHED},
    ("serving.octavo.dev", "inferenceservices/finalizers"): {"update"},
    ("serving.octavo.dev", "inferenceservices/status"): {"patch"},
    **{(kind.group, kind.plural): KEPT for kind in kinds.REQUIRED},
    **{(kind.group, kind.plural): {"delete", *KEPT} for kind in kinds.OPTIONAL},
}


def test_its_rights_are_what_the_code_needs() -> None:
    granted: dict[tuple[str, str], set[str]] = {}
    for rule in rules(rendered(), "ClusterRole"):
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                granted.setdefault((group, resource), set()).update(rule["verbs"])
    assert granted == NEEDED


def test_no_right_is_for_everything() -> None:
    assert "*" not in json.dumps(rules(rendered(), "ClusterRole"))


def test_rules_stand_in_alphabetical_order() -> None:
    told = [(rule["apiGroups"][0], rule["resources"][0]) for rule in rules(rendered(), "ClusterRole")]
    assert told == sorted(told)
