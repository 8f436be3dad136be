"""What a service's pods are made with until someone asks for newer: the installation's image and a generation of the pod template.

An upgrade of the operator brings a new default image and perhaps a new generation, and must restart nobody's pods. So both are
kept where the pods come from, in annotations of the workload; where that is gone, the status still tells. Pure.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator import names
from octavo_operator.conditions import Condition

# Oldest first. v2: a pod has a memory request and limit also where the spec says none (`fitting.judgement`).
RENDERERS = ("v1", "v2")


@dataclasses.dataclass(frozen=True)
class Pin:
    """`image` is that of a service that names none, None where there is none; the newest ones are what an upgrade would take."""

    image: str | None
    renderer: str
    newest_image: str | None
    newest_renderer: str


def newest(image: str | None) -> Pin:
    """Of a service that has no pods yet."""
    return Pin(image, RENDERERS[-1], image, RENDERERS[-1])


def pin(body: Mapping[str, Any], workload: Mapping[str, Any] | None, image: str | None) -> Pin:
    """Of the InferenceService `body` whose own workload is live; `image` is the installation's now."""
    found = newest(image)
    if body["spec"].get("runtime", {}).get("upgrade") == "Auto":
        return found
    known_image, known_renderer = _of_status(body) if workload is None else _of_workload(body, workload)
    return dataclasses.replace(
        found,
        image=known_image or image,
        # An unknown one was written by a newer operator: this one can only render what it knows.
        renderer=known_renderer if known_renderer in RENDERERS else found.renderer,
    )


def upgrade_available(pinned: Pin, own_image: str) -> Condition | None:
    """None where the pods are made with the newest, `own_image` being the one they run."""
    news = []
    if pinned.image != pinned.newest_image and own_image == pinned.image and pinned.newest_image is not None:
        news.append(f"the runtime image {pinned.newest_image} (the pods run {own_image})")
    if pinned.renderer != pinned.newest_renderer:
        news.append(f"generation {pinned.newest_renderer} of the pod template (the pods are of {pinned.renderer})")
    if not news:
        return None
    text = f"{' and '.join(news)}: set spec.runtime.upgrade to Auto to take it, which restarts the pods"
    return Condition.of("UpgradeAvailable", True, "Newer", text)


def _of_workload(body: Mapping[str, Any], workload: Mapping[str, Any]) -> tuple[str | None, str]:
    annotations = workload["metadata"].get("annotations", {})
    renderer = annotations.get(names.RENDERER_ANNOTATION, RENDERERS[0])
    return annotations.get(names.DEFAULT_IMAGE_ANNOTATION) or _image_of_status(body), renderer


def _of_status(body: Mapping[str, Any]) -> tuple[str | None, str | None]:
    revision = body.get("status", {}).get("revision")
    return _image_of_status(body), revision.partition("-")[0] if revision else None


def _image_of_status(body: Mapping[str, Any]) -> str | None:
    """What the pods run, where that is the default: the operator of 0.1.0 wrote it down nowhere else."""
    named = body["spec"].get("runtime", {}).get("image")
    running: str | None = body.get("status", {}).get("runtimeImage")
    return None if named else running
