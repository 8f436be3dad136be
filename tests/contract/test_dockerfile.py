"""The Dockerfile against the tree: what it copies, which version it states, how its images run."""

import re
from dataclasses import dataclass

import pytest

import octavo_runtime
from tests.cluster.images import inputs
from tests.cluster.images.inputs import REPOSITORY

FINAL = tuple(inputs.TARGETS)


@dataclass(frozen=True)
class Instruction:
    stage: str
    word: str
    rest: str


def instructions() -> list[Instruction]:
    text = re.sub(r"^#.*\n", "", (REPOSITORY / "Dockerfile").read_text(), flags=re.MULTILINE)
    found, stage = [], ""
    for line in re.sub(r"\\\n\s*", "", text).splitlines():
        if not line:
            continue
        word, _, rest = line.partition(" ")
        if word == "FROM":
            stage = rest.rpartition(" AS ")[2]
        found.append(Instruction(stage, word, rest))
    return found


def ancestry(stage: str) -> list[str]:
    """The stage and those that it is built on."""
    parents = {i.stage: i.rest.split()[0] for i in instructions() if i.word == "FROM"}
    return [stage, *ancestry(parents[stage])] if stage in parents else []


def copied() -> dict[str, set[str]]:
    """Stage → what it copies from the tree."""
    found: dict[str, set[str]] = {}
    for i in instructions():
        if i.word == "COPY" and not i.rest.startswith("--from="):
            found.setdefault(i.stage, set()).update(source.removesuffix("/") for source in i.rest.split()[:-1])
    return found


def last(stage: str, word: str) -> str:
    return [i.rest for s in reversed(ancestry(stage)) for i in instructions() if (i.stage, i.word) == (s, word)][-1]


def test_the_version_is_the_distributions() -> None:
    stated = {i.rest for i in instructions() if i.word == "ARG" and i.rest.startswith("VERSION=")}
    assert stated == {f"VERSION={octavo_runtime.__version__}"}


@pytest.mark.parametrize("target", FINAL)
def test_an_image_runs_as_a_number_that_is_not_root(target: str) -> None:
    assert last(target, "USER") == "65532:65532"


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        pytest.param("operator", '["python", "-m", "octavo_operator"]', id="operator"),
        pytest.param("runtime", '["octavo"]', id="runtime"),
        pytest.param("runtime-demo", '["octavo"]', id="runtime-demo"),
    ],
)
def test_an_image_starts_its_half(target: str, expected: str) -> None:
    assert last(target, "ENTRYPOINT") == expected


@pytest.mark.parametrize("target", FINAL)
def test_our_code_is_the_last_layer(target: str) -> None:
    half = target.partition("-")[0]
    layers = [i for i in instructions() if i.stage == target and i.word in ("COPY", "ADD", "RUN")]
    assert layers[-1].rest == f"--from=code /out/{half}/ /"


@pytest.mark.parametrize("target", FINAL)
def test_a_tag_follows_from_all_that_is_copied(target: str) -> None:
    own = {*inputs.ALWAYS, *inputs.TARGETS[target]}
    sources = {source for stage in ancestry(target) for source in copied().get(stage, set())}
    assert sources <= own
    # The stage `code` packs both halves, of which an image takes its own.
    assert copied()["code"] <= {*inputs.ALWAYS, *inputs.TARGETS["operator"], *inputs.TARGETS["runtime"]}


def test_the_build_context_is_what_is_copied() -> None:
    ignore = (REPOSITORY / ".dockerignore").read_text().splitlines()
    let_through = {line.removeprefix("!") for line in ignore if line.startswith("!")}
    assert let_through == {source.partition("/")[0] for sources in copied().values() for source in sources}


def test_whatever_is_installed_from_a_list_has_its_hashes_checked() -> None:
    installs = [i.rest for i in instructions() if i.word == "RUN" and "install" in i.rest and "-r " in i.rest]
    assert len(installs) == 5
    for text in installs:
        lists = re.findall(r"-r (\S+\.txt)", text)
        assert text.count("--require-hashes") == len(lists)


def test_the_operators_list_holds_nothing_of_the_runtime() -> None:
    names = set(re.findall(r"^([a-z0-9-]+)==", (REPOSITORY / "requirements/operator.txt").read_text(), re.MULTILINE))
    assert "kopf" in names
    assert not names & {"torch", "triton", "transformers", "fastapi", "uvicorn", "numpy"}
