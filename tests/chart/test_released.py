"""The CRD beside that of the last release: fields and values are only ever added, so what was stored then is valid now."""

import functools
import tarfile
from pathlib import Path

import pytest
import yaml

from tests.chart.render import SOURCE
from tests.chart.test_crd import Schema, schemas

RELEASED = Path(__file__).parent / "released" / "octavo-0.1.0.tgz"
# The one value that was taken and is not any more: a context of one token has no room for an answer, so it never served.
MENDED = {("spec.runtime.maxModelLen", "minimum")}


def fields(crd: Schema) -> dict[str, Schema]:
    [version] = crd["spec"]["versions"]
    return dict(schemas(version["schema"]["openAPIV3Schema"], ""))


@functools.cache
def released() -> dict[str, Schema]:
    with tarfile.open(RELEASED) as chart:
        file = chart.extractfile("octavo/templates/crd.yaml")
        assert file is not None
        lines = file.read().decode().splitlines()
    return fields(yaml.safe_load("\n".join(line for line in lines if not line.startswith("{{"))))


@pytest.fixture(scope="module")
def now() -> dict[str, Schema]:
    return fields(yaml.safe_load(SOURCE.read_text()))


@pytest.mark.parametrize("path", [path for path in released() if path])
def test_a_released_field_is_still_what_it_was(path: str, now: dict[str, Schema]) -> None:
    before, after = released()[path], now.get(path)
    assert after is not None, "it is gone: objects that have it would lose it"
    for what in ("type", "format", "default", "x-kubernetes-list-type", "x-kubernetes-list-map-keys"):
        assert after.get(what) == before.get(what)


@pytest.mark.parametrize("path", list(released()))
def test_a_released_field_takes_all_that_it_took(path: str, now: dict[str, Schema]) -> None:
    before, after = released()[path], now[path]
    assert set(after.get("required", ())) <= set(before.get("required", ()))
    assert set(after.get("enum", ())) >= set(before.get("enum", ())) or "enum" not in after
    for limit in ("maximum", "maxLength", "maxItems", "maxProperties"):
        assert after.get(limit, float("inf")) >= before.get(limit, float("inf")), limit
    for limit in ("minimum", "minLength", "minItems"):
        assert (path, limit) in MENDED or after.get(limit, 0) <= before.get(limit, 0), limit
