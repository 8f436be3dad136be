"""The chart's preloading DaemonSet alone, beside whatever operator the tests use."""

from typing import Any

from tests.chart.rendering import rendered
from tests.cluster.kubectl import Kubectl
from tests.operator.live import Object

NAME = "octavo-preload"


def daemon(namespace: str, image: str, folder: str, **values: Any) -> Object:
    """With a folder of the node that pods of services may mount."""
    wanted = {
        "enabled": True,
        "image": image,
        "hostPath": folder,
        "giveFolder": True,
        "resources": {"requests": {"cpu": "50m"}},
        **values,
    }
    found = rendered(preload=wanted, allow={"hostPaths": [folder]})["DaemonSet", NAME]
    found["metadata"]["namespace"] = namespace
    return found


def holds(kubectl: Kubectl) -> bool:
    """Whether its pod says that all is in memory."""
    found = kubectl.get("daemonset", NAME)
    return found is not None and found.get("status", {}).get("numberReady") == 1
