"""What differs between a desired child and the live one, by samples of `managedFields` as the API server writes them."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from octavo_operator import apply
from octavo_operator.desired.deployment import deployment
from octavo_operator.desired.service import cluster_service
from octavo_operator.plan import plan
from octavo_operator.replicas import without_number
from tests.operator.samples import UID, parsed

MERGE_KEYS = {
    "containers": ["name"],
    "env": ["name"],
    "ownerReferences": ["uid"],
    "volumeMounts": ["mountPath"],
    "volumes": ["name"],
}


def desired(**spec: Any) -> dict[str, Any]:
    service = parsed(**spec)
    return deployment(service, plan(service))


def fields(value: Any, field: str = "") -> dict[str, Any]:
    """The fieldsV1 tree that server-side apply records for `value`."""
    if isinstance(value, dict):
        return {f"f:{key}": fields(below, key) for key, below in value.items()}
    keys = MERGE_KEYS.get(field)
    if field == "ports":
        keys = ["containerPort", "protocol"] if "containerPort" in value[0] else ["port", "protocol"]
    if keys is None:
        return {}
    return {
        "k:" + json.dumps({key: item[key] for key in keys}, separators=(",", ":")): {".": {}, **fields(item)}
        for item in value
    }


def live(body: dict[str, Any]) -> dict[str, Any]:
    """`body` after it was applied: with our entry, another manager's, and what the API server fills in."""
    applied = copy.deepcopy(body)
    owned = {
        "f:metadata": fields(
            {key: body["metadata"][key] for key in body["metadata"] if key not in ("name", "namespace")}
        ),
        "f:spec": fields(body["spec"]),
    }
    applied["metadata"].update(uid="1", generation=1, resourceVersion="7", creationTimestamp="2026-01-01T00:00:00Z")
    applied["metadata"]["managedFields"] = [
        {
            "manager": "octavo-operator",
            "operation": "Apply",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": owned,
        },
        {
            "manager": "kube-controller-manager",
            "operation": "Update",
            "subresource": "status",
            "fieldsV1": {"f:status": {"f:replicas": {}}},
        },
    ]
    applied["status"] = {"replicas": 1}
    return applied


def live_deployment() -> dict[str, Any]:
    applied = live(desired())
    pod = applied["spec"]["template"]["spec"]
    pod.update(dnsPolicy="ClusterFirst", restartPolicy="Always", schedulerName="default-scheduler")
    pod["containers"][0].update(imagePullPolicy="IfNotPresent", terminationMessagePath="/dev/termination-log")
    pod["containers"][0]["readinessProbe"].update(successThreshold=1)
    return applied


def test_what_the_api_server_fills_in_is_no_difference() -> None:
    assert apply.differences(desired(), live_deployment()) == []


def test_a_service_that_was_applied_does_not_differ() -> None:
    body = cluster_service(parsed())
    applied = live(body)
    applied["spec"].update(clusterIP="10.0.0.7", sessionAffinity="None")
    assert apply.differences(body, applied) == []


def test_foreign_additions_are_no_difference() -> None:
    applied = live_deployment()
    template = applied["spec"]["template"]
    template["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}
    template["spec"]["containers"].append({"name": "sidecar", "image": "x"})
    template["spec"]["containers"][0]["env"].insert(0, {"name": "EXTRA", "value": "1"})
    assert apply.differences(desired(), applied) == []


def test_one_more_key_in_a_selector_is_a_difference() -> None:
    body = cluster_service(parsed())
    applied = live(body)
    applied["spec"]["selector"]["version"] = "2"
    assert apply.differences(body, applied) == ["spec.selector"]


def _set_replicas(applied: dict[str, Any]) -> None:
    applied["spec"]["replicas"] = 5


def _set_image(applied: dict[str, Any]) -> None:
    applied["spec"]["template"]["spec"]["containers"][0]["image"] = "evil:1"


def _drop_label(applied: dict[str, Any]) -> None:
    del applied["metadata"]["labels"]["app.kubernetes.io/component"]


def _drop_mount(applied: dict[str, Any]) -> None:
    del applied["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][1]


def _shorten_args(applied: dict[str, Any]) -> None:
    applied["spec"]["template"]["spec"]["containers"][0]["args"].pop()


@pytest.mark.parametrize(
    ("tamper", "paths"),
    [
        pytest.param(_set_replicas, ["spec.replicas"], id="a value"),
        pytest.param(_set_image, ["spec.template.spec.containers[name=runtime].image"], id="a value in a list item"),
        pytest.param(_drop_label, ["metadata.labels.app.kubernetes.io/component"], id="a missing key"),
        pytest.param(
            _drop_mount,
            ["spec.template.spec.containers[name=runtime].volumeMounts[mountPath=/run/octavo]"],
            id="a missing list item",
        ),
        pytest.param(_shorten_args, ["spec.template.spec.containers[name=runtime].args"], id="an atomic list"),
    ],
)
def test_names_what_was_changed_by_hand(tamper: Any, paths: list[str]) -> None:
    applied = live_deployment()
    tamper(applied)
    assert apply.differences(desired(), applied) == paths


@pytest.mark.parametrize(
    ("earlier", "later", "paths"),
    [
        pytest.param(
            {"resources": {"memory": "1Gi"}},
            {},
            ["spec.template.spec.containers[name=runtime].resources"],
            id="a map",
        ),
        pytest.param(
            {"parallelism": {"tensor": 2}},
            {"parallelism": {"tensor": 1}},
            [
                "spec.template.spec.containers[name=runtime].args",
                "spec.template.spec.containers[name=runtime].volumeMounts[mountPath=/dev/shm]",
                "spec.template.spec.volumes[name=shm]",
            ],
            id="list items",
        ),
        pytest.param(
            {"rollout": {"strategy": "Surge"}},
            {"rollout": {"strategy": "Recreate"}},
            ["spec.strategy.rollingUpdate", "spec.strategy.type"],
            id="what another type forbids",
        ),
    ],
)
def test_names_what_is_ours_and_no_longer_desired(
    earlier: dict[str, Any], later: dict[str, Any], paths: list[str]
) -> None:
    assert apply.differences(desired(**later), live(desired(**earlier))) == paths


def test_a_lost_apply_entry_is_a_difference() -> None:
    applied = live_deployment()
    applied["metadata"]["managedFields"] = [
        {**entry, "operation": "Update"} for entry in applied["metadata"]["managedFields"]
    ]
    assert apply.differences(desired(), applied) == ["metadata.managedFields"]


def test_a_number_of_pods_that_an_autoscaler_left_is_ours_again() -> None:
    applied = live(without_number(desired()))
    applied["spec"]["replicas"] = desired()["spec"]["replicas"]
    assert apply.differences(without_number(desired()), applied) == []
    assert apply.differences(desired(), applied) == ["spec.replicas"]


SPECS = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(0, 3),
        "parallelism": st.fixed_dictionaries({"tensor": st.integers(1, 2)}),
        "resources": st.fixed_dictionaries({}, optional={"cpu": st.just("1"), "memory": st.just("1Gi")}),
        "rollout": st.fixed_dictionaries({"strategy": st.sampled_from(["Surge", "OneByOne", "Recreate"])}),
        "device": st.sampled_from(["cpu", "gpu"]),
    },
)


@settings(deadline=None)  # what it takes depends on who else uses the machine
@given(SPECS, SPECS)
def test_two_renderings_differ_exactly_where_the_specs_do(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (apply.differences(desired(**one), live(desired(**other))) == []) == (desired(**one) == desired(**other))


@pytest.mark.parametrize(
    ("entries", "writer"),
    [
        pytest.param([("octavo-operator", "09", {})], "", id="only we"),
        pytest.param([("flux", "08", {}), ("octavo-operator", "09", {})], "flux", id="another before us"),
        pytest.param([("helm", "07", {}), ("flux", "08", {}), ("argo", "06", {})], "flux", id="the last of several"),
        pytest.param(
            [("helm", "07", {}), ("kube-controller-manager", "09", {"subresource": "status"})],
            "helm",
            id="who writes status does not count",
        ),
    ],
)
def test_names_the_last_other_writer(entries: list[tuple[str, str, dict[str, str]]], writer: str) -> None:
    fields = [
        {"manager": manager, "operation": "Update", "time": f"2026-01-01T00:00:{second}Z", **more}
        for manager, second, more in entries
    ]
    assert apply.last_writer({"metadata": {"managedFields": fields}}) == writer


@pytest.mark.parametrize(
    ("owners", "ours"),
    [
        pytest.param([{"uid": UID, "controller": True}], True, id="our object"),
        pytest.param([{"uid": UID}], False, id="an owner that does not control"),
        pytest.param([{"uid": "another", "controller": True}], False, id="a namesake that is gone"),
        pytest.param([], False, id="nobody"),
    ],
)
def test_a_child_is_ours_only_where_our_object_controls_it(owners: list[dict[str, Any]], ours: bool) -> None:
    assert apply.controlled_by({"metadata": {"ownerReferences": owners}}, UID) is ours


@pytest.mark.parametrize(
    ("owner", "going"),
    [
        pytest.param({"uid": "former"}, True, id="a namesake that was deleted"),
        pytest.param({"uid": UID}, False, id="our object"),
        pytest.param({"uid": "former", "name": "other"}, False, id="another service"),
        pytest.param({"uid": "former", "kind": "Application"}, False, id="another kind"),
        pytest.param({"uid": "former", "controller": False}, False, id="an owner that does not control"),
    ],
)
def test_children_of_a_deleted_namesake_are_known_to_be_going(owner: dict[str, Any], going: bool) -> None:
    [ours] = desired()["metadata"]["ownerReferences"]
    assert apply.left_behind({"metadata": {"ownerReferences": [{**ours, **owner}]}}, "chat", UID) is going
