"""Which services an event makes worth a look."""

from typing import Any

import pytest
from kubernetes.aio.client import ApiClient

from octavo_operator import kinds, kube, mirror, names
from octavo_operator.kinds import Kind
from octavo_operator.projections import Projections
from octavo_operator.service import Key

CHAT = Key("demo", "chat")
OF_CHAT = {names.SERVICE_LABEL: "chat", names.MANAGED_BY_LABEL: names.MANAGED_BY}
INSPECTS_CHAT = {names.INSPECTS_LABEL: "chat", names.MANAGED_BY_LABEL: names.MANAGED_BY}
RUNNING = {"phase": "Running", "containerStatuses": [{"name": "runtime", "state": {"running": {}}}]}


@pytest.fixture
def shown() -> Projections:
    return Projections(mirror.Mirror(kube.Kube(ApiClient())))


def body(kind: Kind, labels: dict[str, str], version: int = 1, **status: Any) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": "demo", "uid": "u", "labels": labels, "resourceVersion": str(version)}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, "spec": {}, "status": status}


@pytest.mark.parametrize(
    ("kind", "labels", "news"),
    [
        pytest.param(kinds.DEPLOYMENT, OF_CHAT, CHAT, id="child"),
        pytest.param(kinds.DEPLOYMENT, {names.MANAGED_BY_LABEL: names.MANAGED_BY}, None, id="child of nobody"),
        pytest.param(kinds.POD, OF_CHAT, CHAT, id="pod"),
        pytest.param(kinds.POD, INSPECTS_CHAT, CHAT, id="pod that inspects"),
        pytest.param(kinds.POD, {}, None, id="pod of nobody"),
        pytest.param(kinds.INFERENCE_SERVICE, {}, None, id="service, which has a handler"),
    ],
)
def test_what_is_new_is_news_once(shown: Projections, kind: Kind, labels: dict[str, str], news: Key | None) -> None:
    assert shown.seen(body(kind, labels)) == news
    assert shown.seen(body(kind, labels)) is None


def test_a_pod_is_news_where_it_differs_in_what_counts(shown: Projections) -> None:
    shown.seen(body(kinds.POD, OF_CHAT))
    assert shown.seen(body(kinds.POD, OF_CHAT, 2, hostIP="10.0.0.1")) is None
    assert shown.seen(body(kinds.POD, OF_CHAT, 3, **RUNNING)) == CHAT
    assert [pod.running for pod in shown.pods.of(CHAT)] == [True]


def test_a_child_is_news_in_each_newer_version(shown: Projections) -> None:
    shown.seen(body(kinds.DEPLOYMENT, OF_CHAT, 5))
    assert shown.seen(body(kinds.DEPLOYMENT, OF_CHAT, 6, replicas=1)) == CHAT
    assert shown.seen(body(kinds.DEPLOYMENT, OF_CHAT, 5)) is None, "older"


@pytest.mark.parametrize("kind", [kinds.DEPLOYMENT, kinds.POD], ids=lambda kind: kind.kind)
def test_what_is_gone_is_forgotten_and_news(shown: Projections, kind: Kind) -> None:
    shown.seen(body(kind, OF_CHAT))
    assert shown.gone(body(kind, OF_CHAT)) == CHAT
    assert (shown.pods.of(CHAT), shown.children.of(CHAT)) == ((), ())
    assert shown.seen(body(kind, OF_CHAT)) == CHAT, "made anew"
