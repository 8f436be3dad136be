"""What an inspection says survives its way as JSON, and what is not one is refused by name."""

import dataclasses
import json
from typing import Any

import pytest

from octavo_sizing.errors import InspectionError
from octavo_sizing.inspection import MOST_JSON_BYTES, Inspection, StoredBytes
from tests.sizing.models import MISTRAL_7B, SMOLLM2_135M

FOUND = Inspection(
    source="hf://org/model@main",
    format="safetensors",
    dtype="bfloat16",
    stored=StoredBytes(embedding=1, head=0, attention=3, mlp=4, norms=5),
    model=MISTRAL_7B,
    revision="0123456789abcdef",
)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(FOUND, id="all"),
        pytest.param(dataclasses.replace(FOUND, revision=None, model=SMOLLM2_135M), id="no revision, no window"),
    ],
)
def test_travels_as_json(found: Inspection) -> None:
    assert Inspection.from_json(found.to_json()) == found


def test_is_named_as_fields_of_kubernetes() -> None:
    fields = FOUND.to_fields()
    assert fields["storedBytes"] == {"embedding": 1, "head": 0, "attention": 3, "mlp": 4, "norms": 5}
    assert (fields["model"]["kvHeads"], fields["model"]["tiedEmbeddings"]) == (8, False)
    assert FOUND.stored.total == 13


def test_has_room_in_a_termination_message() -> None:
    long = dataclasses.replace(FOUND, source=f"file:///{'m' * 1000}")
    assert len(long.to_json()) < MOST_JSON_BYTES
    with pytest.raises(InspectionError, match="too long"):
        dataclasses.replace(FOUND, source="m" * 4096).to_json()


def test_what_a_newer_runtime_adds_is_ignored() -> None:
    fields = FOUND.to_fields() | {"experts": 8}
    assert Inspection.from_fields(fields | {"model": fields["model"] | {"experts": 8}}) == FOUND


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"model": None}, "no JSON object at model", id="no model"),
        pytest.param({"source": ""}, "source = ''", id="no source"),
        pytest.param({"format": 3}, "format = 3", id="a number for a text"),
        pytest.param({"model": {"layers": 3}}, "no model.vocabSize", id="half a model"),
        pytest.param({"storedBytes": {"mlp": -1}}, "storedBytes.mlp = -1", id="less than nothing"),
    ],
)
def test_what_is_no_inspection_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(InspectionError, match=says):
        Inspection.from_json(json.dumps(FOUND.to_fields() | changes))


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "8", None])
def test_sizes_are_whole_numbers_of_at_least_one(value: object) -> None:
    fields = FOUND.to_fields()
    fields["model"] = fields["model"] | {"kvHeads": value}
    with pytest.raises(InspectionError, match=r"model\.kvHeads"):
        Inspection.from_fields(fields)


def test_a_text_of_no_json_is_shown() -> None:
    with pytest.raises(InspectionError, match="octavo: the model /models/x does not exist"):
        Inspection.from_json("octavo: the model /models/x does not exist")
