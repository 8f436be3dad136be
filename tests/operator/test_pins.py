"""What a service's pods are made with after the operator was upgraded, and what the status says of newer."""

from typing import Any

import pytest

from octavo_operator import pins, service
from octavo_operator.desired import pod
from tests.operator.golden import WHOLE
from tests.operator.samples import IMAGE, body

NEW = "registry.example/octavo-runtime:2"


def workload(**annotations: str) -> dict[str, Any]:
    named = {f"serving.octavo.dev/{name.replace('_', '-')}": value for name, value in annotations.items()}
    return {"metadata": {**WHOLE["metadata"], "annotations": named}}


def seen(spec: dict[str, Any] | None = None, **status: Any) -> dict[str, Any]:
    return {**body(**(spec or {})), "status": status}


@pytest.mark.parametrize(
    ("live", "found", "image", "renderer"),
    [
        pytest.param(seen(), None, NEW, pins.RENDERERS[-1], id="no pods yet"),
        pytest.param(
            seen(), workload(renderer="v1", default_image=IMAGE), IMAGE, "v1", id="the workload remembers both"
        ),
        pytest.param(
            seen(runtimeImage=IMAGE),
            workload(renderer="v1"),
            IMAGE,
            "v1",
            id="of 0.1.0, which remembered the generation",
        ),
        pytest.param(
            seen({"runtime": {"image": "own:1"}}, runtimeImage="own:1"),
            workload(renderer="v1"),
            NEW,
            "v1",
            id="of 0.1.0 with an image of its own",
        ),
        pytest.param(
            seen(runtimeImage=IMAGE, revision="v1-0123456789"), None, IMAGE, "v1", id="the workload was deleted by hand"
        ),
        pytest.param(
            seen(),
            workload(renderer="v99", default_image=IMAGE),
            IMAGE,
            pins.RENDERERS[-1],
            id="made by a newer operator",
        ),
        pytest.param(
            seen({"runtime": {"upgrade": "Auto"}}, runtimeImage=IMAGE),
            workload(renderer="v1", default_image=IMAGE),
            NEW,
            pins.RENDERERS[-1],
            id="upgrades are asked for",
        ),
    ],
)
def test_pods_stay_what_they_are_until_asked(
    live: dict[str, Any], found: dict[str, Any] | None, image: str, renderer: str
) -> None:
    pinned = pins.pin(live, found, NEW)
    assert (pinned.image, pinned.renderer) == (image, renderer)


def test_an_upgrade_of_the_operator_changes_no_pod_template() -> None:
    before = service.parse(body(), pins.pin(body(), None, IMAGE))
    live = {**body(), "status": {"runtimeImage": IMAGE, "revision": pod.revision(before)}}
    for found in (workload(renderer=before.pin.renderer, default_image=IMAGE), None):
        after = service.parse(live, pins.pin(live, found, NEW))
        assert pod.template(after) == pod.template(before)
        assert pod.revision(after) == pod.revision(before)


def test_an_image_of_the_spec_goes_before_the_pin() -> None:
    own = body(runtime={"image": "own:1"})
    parsed = service.parse(own, pins.pin(own, workload(renderer="v1", default_image=IMAGE), NEW))
    assert (parsed.runtime.image, parsed.pin.image) == ("own:1", IMAGE)


@pytest.mark.parametrize(
    ("pin", "own_image", "says"),
    [
        pytest.param(pins.newest(IMAGE), IMAGE, None, id="the newest"),
        pytest.param(pins.Pin(IMAGE, "v1", NEW, "v1"), IMAGE, f"image {NEW} (the pods run {IMAGE})", id="image"),
        pytest.param(pins.Pin(IMAGE, "v1", NEW, "v1"), "own:1", None, id="an image of the spec is nobody's to upgrade"),
        pytest.param(pins.Pin(IMAGE, "v1", IMAGE, "v2"), IMAGE, "generation v2 of the pod template", id="template"),
        pytest.param(pins.Pin(IMAGE, "v1", None, "v1"), IMAGE, None, id="no default any more"),
    ],
)
def test_newer_is_said_with_what_takes_it(pin: pins.Pin, own_image: str, says: str | None) -> None:
    found = pins.upgrade_available(pin, own_image)
    if says is None:
        assert found is None
    else:
        assert found is not None
        assert (found.type, found.status) == ("UpgradeAvailable", "True")
        assert says in found.message
        assert "set spec.runtime.upgrade to Auto" in found.message


def test_every_generation_has_its_renderer() -> None:
    assert tuple(pod.RENDERERS) == pins.RENDERERS
