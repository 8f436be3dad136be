"""The operator's client against a real API server: what it returns, and which error says what."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest
from kubernetes.aio.client import ApiClient

from octavo_operator import access, kinds, kube
from octavo_operator.service import Key
from tests.cluster.kubectl import Kubectl
from tests.operator.live import KIND, Object, service, shared_namespace

T = TypeVar("T")


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


def asked(kubectl: Kubectl, story: Callable[[kube.Kube], Awaitable[T]], user: str | None = None) -> T:
    """What `story` gets from a connection, made as `user` where one is named."""

    async def connected() -> T:
        to = access.Access(kubectl.access.kubeconfig, kubectl.access.context)
        async with ApiClient(configuration=await access.configuration(to)) as client:
            if user is not None:
                client.set_default_header("Impersonate-User", user)
            return await story(kube.Kube(client))

    return asyncio.run(connected())


def cluster_service(kubectl: Kubectl, port: int) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "direct", "namespace": kubectl.namespace},
        "spec": {"ports": [{"name": "http", "port": port, "protocol": "TCP"}]},
    }


def test_what_is_not_there_is_none(octavo: Kubectl) -> None:
    assert octavo.namespace is not None
    key = Key(octavo.namespace, "nothing")
    assert asked(octavo, lambda api: api.get(kinds.DEPLOYMENT, key)) is None


def test_knows_which_kinds_are_served(octavo: Kubectl) -> None:
    unknown = kinds.Kind("nobody.octavo.dev", "v1", "Nothing", "nothings")
    assert asked(octavo, lambda api: api.serves(kinds.INFERENCE_SERVICE))
    assert asked(octavo, lambda api: api.serves(kinds.SERVICE))
    assert not asked(octavo, lambda api: api.serves(unknown))


def test_applies_and_counts_what_it_wrote(namespace: Kubectl) -> None:
    async def story(api: kube.Kube) -> tuple[Object, dict[str, int]]:
        return await api.apply(kinds.SERVICE, cluster_service(namespace, 80)), api.writes

    applied, writes = asked(namespace, story)
    assert [entry["manager"] for entry in applied["metadata"]["managedFields"]] == ["octavo-operator"]
    assert writes == {"Service": 1}


def test_an_invalid_object_is_rejected_with_the_servers_words(namespace: Kubectl) -> None:
    with pytest.raises(kube.RejectedError, match="must be between 1 and 65535"):
        asked(namespace, lambda api: api.apply(kinds.SERVICE, cluster_service(namespace, 99999)))


def test_a_missing_right_is_denied(namespace: Kubectl) -> None:
    with pytest.raises(kube.DeniedError, match='cannot patch resource "services"'):
        asked(namespace, lambda api: api.apply(kinds.SERVICE, cluster_service(namespace, 80)), user="nobody")


def test_the_status_of_what_has_changed_since_is_not_written(octavo: Kubectl, namespace: Kubectl) -> None:
    namespace.apply(service("changed", suspend=True))
    live = namespace.get(KIND, "changed")
    assert live is not None
    namespace.patch(KIND, "changed", {"spec": {"replicas": 2}})
    with pytest.raises(kube.UnavailableError, match="changed"):
        asked(namespace, lambda api: api.apply_status(kinds.INFERENCE_SERVICE, live, {"observedGeneration": 9}))


def test_patches_what_has_not_changed_since_and_only_that(namespace: Kubectl) -> None:
    operations = [{"op": "replace", "path": "/spec/ports", "value": [{"name": "http", "port": 81, "protocol": "TCP"}]}]

    async def story(api: kube.Kube) -> Object:
        live = await api.apply(kinds.SERVICE, cluster_service(namespace, 80))
        await api.patch(kinds.SERVICE, live, operations)
        with pytest.raises(kube.UnavailableError, match="modified"):
            await api.patch(kinds.SERVICE, live, operations)
        patched = await api.get(kinds.SERVICE, Key(namespace.namespace or "", "direct"))
        assert patched is not None
        return patched

    assert [port["port"] for port in asked(namespace, story)["spec"]["ports"]] == [81]
