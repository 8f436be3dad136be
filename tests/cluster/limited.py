"""Accounts that may do less than the chart gives its operator."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from tests.chart.rendering import rendered, rules
from tests.cluster.kubectl import Kubectl
from tests.operator.live import Object

ACCOUNT = "limited"
_GROUP = "rbac.authorization.k8s.io"


def role(namespace: Kubectl, lacks: str = "") -> Object:
    """What the chart gives where it watches one namespace, without any right to a resource."""
    found = rules(rendered(watch={"namespaces": [namespace.namespace]}, rbac={"aggregate": False}), "Role")
    kept = [{**rule, "resources": [name for name in rule["resources"] if name != lacks]} for rule in found]
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": "Role",
        "metadata": {"name": ACCOUNT},
        "rules": [rule for rule in kept if rule["resources"]],
    }


@contextmanager
def limited(namespace: Kubectl, folder: Path, lacks: str = "") -> Iterator[Path]:
    """A kubeconfig of a service account with that role, while the block runs."""
    namespace.apply(
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}},
        role(namespace, lacks),
        {
            "apiVersion": f"{_GROUP}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": _GROUP, "kind": "Role", "name": ACCOUNT},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": namespace.namespace}],
        },
    )
    config = yaml.safe_load(Path(namespace.access.kubeconfig).read_text())
    token = namespace.run("create", "token", ACCOUNT).strip()
    for user in config["users"]:
        user["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    yield path
    for kind in ("rolebinding", "role", "serviceaccount"):
        namespace.delete(kind, ACCOUNT)
