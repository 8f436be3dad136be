"""What the installed chart says, and what its service account may do, asked of the API server's authorizer."""

import pytest

from tests.cluster.installation import RELEASE, helm
from tests.cluster.kubectl import CommandError, Kubectl

MAY = [
    ("list", "pods"),
    ("watch", "inferenceservices.serving.octavo.dev"),
    ("create", "deployments.apps"),
    ("patch", "services"),
    ("patch", "inferenceservices.serving.octavo.dev/status"),
    ("patch", "pods"),
    ("create", "events.events.k8s.io"),
    ("create", "leases.coordination.k8s.io"),
    ("delete", "poddisruptionbudgets.policy"),
]
MAY_NOT = [
    ("list", "secrets"),
    ("get", "secrets"),
    ("delete", "pods"),
    ("create", "pods/exec"),
    ("delete", "deployments.apps"),
    ("delete", "services"),
    ("update", "inferenceservices.serving.octavo.dev"),
    ("delete", "inferenceservices.serving.octavo.dev"),
    ("create", "clusterroles.rbac.authorization.k8s.io"),
    ("patch", "nodes"),
    ("create", "serviceaccounts/token"),
    ("update", "leases.coordination.k8s.io"),
]


def allowed(octavo: Kubectl, verb: str, resource: str) -> bool:
    name, _, subresource = resource.partition("/")
    words = [verb, name, *([f"--subresource={subresource}"] if subresource else [])]
    account = f"--as=system:serviceaccount:{octavo.namespace}:octavo-operator"
    try:
        return octavo.run("auth", "can-i", *words, account).strip() == "yes"
    except CommandError:
        return False  # it answers "no" with an exit code of 1


@pytest.mark.parametrize(("verb", "resource"), [pytest.param(*pair, id=" ".join(pair)) for pair in MAY])
def test_may_do_what_it_needs(octavo: Kubectl, verb: str, resource: str) -> None:
    assert allowed(octavo, verb, resource)


@pytest.mark.parametrize(("verb", "resource"), [pytest.param(*pair, id=" ".join(pair)) for pair in MAY_NOT])
def test_may_do_nothing_else(octavo: Kubectl, verb: str, resource: str) -> None:
    assert not allowed(octavo, verb, resource)


def test_the_chart_says_the_next_command(octavo: Kubectl) -> None:
    notes = helm(octavo.access, "get", "notes", RELEASE)
    assert "kubectl apply -f my-service.yaml" in notes
    assert "kubectl get oisvc --watch" in notes
    assert "--take-ownership" in notes
