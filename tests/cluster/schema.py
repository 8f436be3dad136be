"""What a real API server makes of an InferenceService, asked without storing it."""

import json
from typing import Any

from tests.cluster.kubectl import CommandError, Kubectl

FILE = {"source": "file:///models/smollm2.gguf"}
HUB = {"source": "hf://org/repo@main"}


def stored(kubectl: Kubectl, body: dict[str, Any]) -> dict[str, Any]:
    """What it would store; CommandError where it refuses."""
    text = kubectl.run("create", "--dry-run=server", "--output=json", "--filename=-", stdin=json.dumps(body))
    found: dict[str, Any] = json.loads(text)
    return found


def refusal(kubectl: Kubectl, body: dict[str, Any]) -> str:
    """What it says when it refuses; empty where it does not."""
    try:
        stored(kubectl, body)
    except CommandError as error:
        return error.stderr
    return ""
