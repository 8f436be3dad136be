"""Downloads from a hub by its real client library, into a cache that others share."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from octavo_runtime.source.download import Download
from octavo_runtime.source.hub import CHUNK_BYTES
from octavo_runtime.source.hub import Hub as Client
from octavo_runtime.source.reference import SourceError, hub_reference
from tests.runtime.hub import Hub, Repository, running_hub

COMMIT = "c0" * 20
WEIGHTS = os.urandom(12 * CHUNK_BYTES + 17)
FILES = {
    "config.json": b"{}",
    "tokenizer.json": b"{}" * 3000,
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"no",
    "README.md": b"",
}
PAUSES_S = (0.0, 0.0)


@pytest.fixture
def hub() -> Iterator[Hub]:
    repositories = {
        "org/small": Repository(COMMIT, FILES),
        "org/secret": Repository(COMMIT, FILES, token="hf_secret"),
        "org/gated": Repository(COMMIT, FILES, gated=True),
        "org/files": Repository(COMMIT, {"a/m-Q4.gguf": WEIGHTS, "m-Q8.gguf": b"GGUF", "README.md": b"x"}),
        "org/one": Repository(COMMIT, {"m.gguf": WEIGHTS}),
        "org/old": Repository(COMMIT, {"config.json": b"{}", "pytorch_model.bin": b"x"}),
    }
    with running_hub(repositories) as hub:
        yield hub


class Told:
    """What a download says of itself."""

    def __init__(self) -> None:
        self.lines: list[tuple[int, str]] = []

    def __call__(self, percent: int, reason: str) -> None:
        self.lines.append((percent, reason))


def download(
    hub: Hub, cache: Path, source: str = "hf://org/small", token: str | None = None, told: Told | None = None
) -> Path:
    reference = hub_reference(source)
    assert reference is not None
    client = Client(token, hub.endpoint)
    return Download(reference, cache, client, told or Told(), PAUSES_S).run().path


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


NEEDED = {name: FILES[name] for name in ("config.json", "tokenizer.json", "model.safetensors")}


def test_only_what_serving_reads_is_fetched_and_kept_by_its_commit(hub: Hub, tmp_path: Path) -> None:
    told = Told()
    found = download(hub, tmp_path, told=told)
    assert found == tmp_path / "org--small" / COMMIT
    assert content(found) == NEEDED
    assert [one.path for one in hub.asked if one.path.endswith((".bin", ".md"))] == []
    assert told.lines[0] == (0, "downloading hf://org/small@main: 0.00 MiB of 3.01 MiB")
    assert told.lines[-1] == (100, "downloading hf://org/small@main: 3.01 MiB of 3.01 MiB")


def test_a_commit_that_is_there_needs_no_hub(hub: Hub, tmp_path: Path) -> None:
    first = download(hub, tmp_path, f"hf://org/small@{COMMIT}")
    hub.asked.clear()
    assert download(hub, tmp_path, f"hf://org/small@{COMMIT}") == first
    assert hub.asked == []


def test_a_branch_is_asked_for_and_is_what_it_was_where_nobody_answers(hub: Hub, tmp_path: Path) -> None:
    first = download(hub, tmp_path)
    hub.asked.clear()
    assert download(hub, tmp_path) == first
    assert [one.path for one in hub.asked] == ["/api/models/org/small/revision/main"]
    hub.repositories["org/small"] = Repository("d1" * 20, FILES)
    assert download(hub, tmp_path).name == "d1" * 20
    hub.busy = 100
    assert download(hub, tmp_path).name == "d1" * 20


def test_goes_on_after_a_cut_from_where_it_was(hub: Hub, tmp_path: Path) -> None:
    hub.cut_after["model.safetensors"] = [8 * CHUNK_BYTES + 5, 4 * CHUNK_BYTES]
    assert content(download(hub, tmp_path)) == NEEDED
    assert hub.ranges("model.safetensors") == [None, f"bytes={8 * CHUNK_BYTES}-", f"bytes={12 * CHUNK_BYTES}-"]


def test_another_process_goes_on_where_one_was_cut(hub: Hub, tmp_path: Path) -> None:
    hub.cut_after["model.safetensors"] = [8 * CHUNK_BYTES, 0, 0, 0]
    with pytest.raises(SourceError, match="cannot be reached"):
        download(hub, tmp_path)
    assert not (tmp_path / "org--small" / COMMIT).exists()
    hub.asked.clear()
    told = Told()
    assert content(download(hub, tmp_path, told=told)) == NEEDED
    assert hub.ranges("model.safetensors") == [f"bytes={8 * CHUNK_BYTES}-"]
    assert hub.ranges("tokenizer.json") == []
    assert told.lines[0][0] > 50


def test_a_server_without_ranges_begins_again(hub: Hub, tmp_path: Path) -> None:
    hub.knows_ranges = False
    hub.cut_after["model.safetensors"] = [8 * CHUNK_BYTES]
    assert content(download(hub, tmp_path)) == NEEDED


def test_a_damaged_file_is_fetched_again_but_not_for_ever(hub: Hub, tmp_path: Path) -> None:
    hub.spoiled = {"model.safetensors": 1, "config.json": 1}
    assert content(download(hub, tmp_path)) == NEEDED
    hub.repositories["org/small"] = Repository("d1" * 20, FILES)
    hub.spoiled = {"model.safetensors": 2}
    with pytest.raises(SourceError, match=r"model.safetensors is not what the hub says"):
        download(hub, tmp_path)


def test_a_busy_hub_is_asked_again(hub: Hub, tmp_path: Path) -> None:
    hub.busy = 2
    told = Told()
    assert content(download(hub, tmp_path, told=told)) == NEEDED
    assert "trying again" in told.lines[0][1]


def test_several_at_once_download_once(hub: Hub, tmp_path: Path) -> None:
    hub.gate = threading.Event()
    told = [Told() for _ in range(3)]
    threads = [threading.Thread(target=download, args=(hub, tmp_path), kwargs={"told": one}) for one in told]
    for thread in threads:
        thread.start()
    while sum("another process downloads" in str(one.lines) for one in told) < 2:
        assert any(thread.is_alive() for thread in threads)
    hub.gate.set()
    for thread in threads:
        thread.join()
    assert content(tmp_path / "org--small" / COMMIT) == NEEDED
    assert hub.ranges("model.safetensors") == [None]


@pytest.mark.parametrize(
    ("source", "path"),
    [
        pytest.param("hf://org/files/a/m-Q4.gguf", f"org--files/{COMMIT}--a--m-Q4.gguf/m-Q4.gguf", id="named"),
        pytest.param("hf://org/one", f"org--one/{COMMIT}/m.gguf", id="the only one"),
    ],
)
def test_a_gguf_file_is_fetched_alone(hub: Hub, tmp_path: Path, source: str, path: str) -> None:
    for _ in range(2):
        found = download(hub, tmp_path, source)
        assert found == tmp_path / path
        assert found.read_bytes() == WEIGHTS


def test_the_token_goes_to_the_hub_and_not_to_its_storage(hub: Hub, tmp_path: Path) -> None:
    assert content(download(hub, tmp_path, "hf://org/secret", "hf_secret")) == NEEDED
    assert {one.authorization for one in hub.asked if not one.storage} == {"Bearer hf_secret"}
    assert {one.authorization for one in hub.asked if one.storage} == {None}


@pytest.mark.parametrize(
    ("source", "token", "text"),
    [
        pytest.param(
            "hf://org/none", None, "has no repository org/none that may be read without a token", id="unknown"
        ),
        pytest.param("hf://org/secret", None, "without a token: .*--hub-token-file or HF_TOKEN", id="private"),
        pytest.param("hf://org/secret", "hf_wrong", "with the given token: .*tokenSecretRef", id="wrong token"),
        pytest.param("hf://org/gated", "hf_any", "is gated: accept its terms at http://.*/org/gated", id="gated"),
        pytest.param(
            "hf://org/small@v9", None, "has no revision 'v9': give a branch, a tag or a commit", id="revision"
        ),
        pytest.param(
            "hf://org/files", None, "has 2 GGUF files: name one, such as hf://org/files/a/m-Q4.gguf", id="several"
        ),
        pytest.param(
            "hf://org/files/m.gguf", None, "there is no m.gguf; there are a/m-Q4.gguf, m-Q8.gguf", id="no such file"
        ),
        pytest.param("hf://org/old", None, "has neither .*safetensors nor .*gguf", id="no weights"),
    ],
)
def test_what_cannot_be_had_says_why_and_what_to_do(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, token: str | None, text: str
) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(SourceError, match=text):
        download(hub, tmp_path, source, token)


def test_a_hub_that_is_not_there_is_named(hub: Hub, tmp_path: Path) -> None:
    hub.endpoint = "http://127.0.0.1:9"
    with pytest.raises(SourceError, match=r"http://127.0.0.1:9 cannot be reached .*HF_ENDPOINT"):
        download(hub, tmp_path)


def test_a_full_disk_says_how_much_lacks(hub: Hub, tmp_path: Path) -> None:
    size = 1 << 62
    hub.repositories["org/huge"] = Repository(COMMIT, {**FILES, "model.safetensors": _Large(size)})
    with pytest.raises(
        SourceError, match=r"does not fit into .*: .* GiB more are needed, .* GiB are free; give --model-cache"
    ):
        download(hub, tmp_path, "hf://org/huge")


class _Large(bytes):
    """A file whose size is told, and nothing more."""

    def __new__(cls, size: int) -> "_Large":
        made = super().__new__(cls, b"x" * 5000)
        made.size = size
        return made

    size: int

    def __len__(self) -> int:
        return self.size


def test_a_cache_that_cannot_be_written_is_named(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(SourceError, match=r"--model-cache: .*file.* cannot be used \(Not a directory\)"):
        download(hub, tmp_path / "file")
