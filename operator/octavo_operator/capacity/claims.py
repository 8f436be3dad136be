"""Whether a claim lets an old and a new pod run side by side. Pure."""

from collections.abc import Mapping
from typing import Any


def exclusive(claim: Mapping[str, Any], only_node: bool) -> str:
    """Why not, as part of a sentence; empty where it does. `only_node`: all pods come to the same node anyway."""
    modes = set(claim["spec"].get("accessModes", ()))
    if modes & {"ReadWriteMany", "ReadOnlyMany"}:
        return ""
    name = claim["metadata"]["name"]
    if "ReadWriteOncePod" in modes:
        return f"the claim {name} is ReadWriteOncePod, which one pod at a time may mount"
    if only_node or "ReadWriteOnce" not in modes:
        return ""
    return f"the claim {name} is ReadWriteOnce, which pods on two nodes cannot mount"
