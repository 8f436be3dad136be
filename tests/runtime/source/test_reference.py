import pytest

from octavo_runtime.source.reference import HubReference, SourceError, check_source, hub_reference


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        pytest.param("hf://org/name", HubReference("org/name"), id="the main branch"),
        pytest.param("hf://org/name@v1.0", HubReference("org/name", None, "v1.0"), id="tag"),
        pytest.param(
            "hf://org/name@refs/pr/3", HubReference("org/name", None, "refs/pr/3"), id="slashes in a revision"
        ),
        pytest.param(
            "hf://o-r.g/n_a.me/q4/m-Q4_1.gguf@ab", HubReference("o-r.g/n_a.me", "q4/m-Q4_1.gguf", "ab"), id="file"
        ),
        pytest.param("/models/hf", None, id="path"),
        pytest.param("file:///models/m.gguf", None, id="file URL"),
    ],
)
def test_what_a_source_means(source: str, expected: HubReference | None) -> None:
    assert hub_reference(source) == expected
    check_source(source)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        pytest.param("hf://name", "is no name on a hub", id="no organisation"),
        pytest.param("hf://", "is no name on a hub", id="nothing"),
        pytest.param("hf://../name", "is no name on a hub", id="parent folder"),
        pytest.param("hf://org/name/model.bin", "is no name on a hub", id="not a GGUF file"),
        pytest.param("hf://org/name/../x.gguf", "is no name on a hub", id="file out of the repository"),
        pytest.param("hf://org/name@", "'' is no revision", id="empty revision"),
        pytest.param("hf://org/name@a/../b", "is no revision", id="parent folder in a revision"),
        pytest.param("hf://org/name@a b", "is no revision", id="space in a revision"),
        pytest.param("https://hub/org/name", "https:// is not supported", id="another scheme"),
        pytest.param("file://host/path", "names the host 'host'", id="a host"),
        pytest.param("", "the model is empty", id="empty"),
    ],
)
def test_what_no_source_is_called(source: str, text: str) -> None:
    with pytest.raises(SourceError, match=text):
        check_source(source)


@pytest.mark.parametrize(
    ("source", "name", "pinned"),
    [
        pytest.param("hf://org/name", "name", False, id="repository"),
        pytest.param("hf://org/name/a/b.gguf@" + "0f" * 20, "b", True, id="file of a commit"),
    ],
)
def test_what_a_model_is_called_and_whether_it_may_change(source: str, name: str, pinned: bool) -> None:
    reference = hub_reference(source)
    assert reference is not None
    assert (reference.name, reference.pinned) == (name, pinned)
    assert hub_reference(str(reference)) == reference
