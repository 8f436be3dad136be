"""The pod template of a service, by the generation that it is pinned to."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from octavo_operator.desired import pod_template, pod_v1
from octavo_operator.service import Service

# What v2 adds is in the service that it gets.
RENDERERS: Mapping[str, Callable[[Service], dict[str, Any]]] = {"v1": pod_v1.template, "v2": pod_v1.template}


def template(service: Service) -> dict[str, Any]:
    return pod_template.merged(RENDERERS[service.pin.renderer](service), service.pod_template)


def revision(service: Service) -> str:
    """Names the pods that the current spec makes: the generation of their template and a digest of it."""
    text = json.dumps(template(service), sort_keys=True)
    return f"{service.pin.renderer}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
