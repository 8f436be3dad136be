"""What image building decides without building: tags, the machine's settings, where a registry is and what it holds."""

import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.cluster.images import commands, registry, settings
from tests.cluster.images.errors import ImagesError
from tests.cluster.images.inputs import BuildSettings, references, snapshot, stage_references

REGISTRY = "127.0.0.1:5001"
ALL = {"operator", "runtime", "runtime-demo"}
RUNTIMES = {"runtime", "runtime-demo"}


@pytest.fixture
def tree() -> Iterator[Path]:
    with snapshot() as folder:
        yield folder


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {target for target in before if before[target] != after[target]}


def test_a_reference_names_registry_repository_and_version(tree: Path) -> None:
    (tree / "runtime/octavo_runtime/__init__.py").write_text('__version__ = "7.8.9"\n')
    found = references(REGISTRY, BuildSettings(), tree)
    assert found.keys() == ALL
    for target, reference in found.items():
        assert reference.startswith(f"{REGISTRY}/octavo-{target}:7.8.9-")


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        pytest.param("operator/octavo_operator/new.py", {"operator"}, id="operator-code"),
        pytest.param("runtime/octavo_runtime/new.py", RUNTIMES, id="runtime-code"),
        pytest.param("kernels/octavo_kernels/new.cpp", RUNTIMES, id="kernels"),
        pytest.param("sizing/octavo_sizing/new.py", ALL, id="sizing"),
        pytest.param("runtime/octavo_runtime/__init__.py", ALL, id="version"),
        pytest.param("requirements/operator.txt", {"operator"}, id="operator-dependencies"),
        pytest.param("requirements/torch.txt", RUNTIMES, id="torch"),
        pytest.param("requirements/model.txt", {"runtime-demo"}, id="model"),
        pytest.param("requirements/dev.txt", set(), id="development-dependencies"),
        pytest.param("Dockerfile", ALL, id="dockerfile"),
        pytest.param("pyproject.toml", ALL, id="pyproject"),
        pytest.param("runtime/octavo_runtime/__pycache__/new.cpython-311.pyc", set(), id="bytecode"),
        pytest.param("tests/new.py", set(), id="tests"),
    ],
)
def test_a_changed_file_changes_the_tags_of_the_images_that_hold_it(tree: Path, file: str, expected: set[str]) -> None:
    before = references(REGISTRY, BuildSettings(), tree)
    path = tree / file
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as content:
        content.write("# changed\n")
    assert changed(before, references(REGISTRY, BuildSettings(), tree)) == expected


def test_a_snapshot_has_the_tags_of_its_tree(tree: Path) -> None:
    with snapshot(tree) as copy:
        assert references(REGISTRY, BuildSettings(), copy) == references(REGISTRY, BuildSettings(), tree)
    assert not copy.exists()


def test_a_moved_file_changes_the_tag(tree: Path) -> None:
    before = references(REGISTRY, BuildSettings(), tree)
    (tree / "operator/octavo_operator/py.typed").rename(tree / "operator/octavo_operator/py.moved")
    assert changed(before, references(REGISTRY, BuildSettings(), tree)) == {"operator"}


@pytest.mark.parametrize(
    "chosen",
    [
        pytest.param(BuildSettings(base="example.org/python:3.12"), id="base"),
        pytest.param(BuildSettings(torch_index="https://example.org/cpu"), id="torch-index"),
    ],
)
def test_another_base_or_index_gives_other_tags(tree: Path, chosen: BuildSettings) -> None:
    assert changed(references(REGISTRY, BuildSettings(), tree), references(REGISTRY, chosen, tree)) == ALL
    assert stage_references(BuildSettings(), tree) != stage_references(chosen, tree)


def test_the_kept_stages_outlive_a_change_of_code(tree: Path) -> None:
    before = stage_references(BuildSettings(), tree)
    (tree / "runtime/octavo_runtime/new.py").write_text("")
    assert stage_references(BuildSettings(), tree) == before


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({"PATH": "/bin", "HOME": "/root", "TOKEN": "x"}, {}, id="nothing-of-others"),
        pytest.param(
            {"PIP_FIND_LINKS": "/opt/wheels", "UV_CACHE_DIR": "/c", "UV_PYTHON": "3.9"}, {}, id="no-paths-no-choices"
        ),
        pytest.param({"UV_HTTP_TIMEOUT": "90", "PIP_RETRIES": ""}, {"UV_HTTP_TIMEOUT": "90"}, id="empty-is-unset"),
        pytest.param({"https_proxy": "http://p:1"}, {"https_proxy": "http://p:1"}, id="proxy"),
        pytest.param(
            {"PIP_INDEX_URL": "https://u:p@example.org/a b'c"},
            {"PIP_INDEX_URL": "https://u:p@example.org/a b'c", "UV_DEFAULT_INDEX": "https://u:p@example.org/a b'c"},
            id="pip-index-reaches-uv",
        ),
        pytest.param(
            {"UV_INDEX_URL": "https://example.org/a"},
            {
                "UV_INDEX_URL": "https://example.org/a",
                "UV_DEFAULT_INDEX": "https://example.org/a",
                "PIP_INDEX_URL": "https://example.org/a",
            },
            id="uv-index-reaches-pip",
        ),
        pytest.param(
            {"UV_DEFAULT_INDEX": "https://example.org/uv", "PIP_INDEX_URL": "https://example.org/pip"},
            {"UV_DEFAULT_INDEX": "https://example.org/uv", "PIP_INDEX_URL": "https://example.org/pip"},
            id="each-its-own",
        ),
    ],
)
def test_package_settings_reach_a_shell_of_the_build(environ: dict[str, str], expected: dict[str, str]) -> None:
    script = settings.exports(environ, with_ca=False)
    shell = ["env", "--ignore-environment", "sh", "-c", f"unset PWD OLDPWD SHLVL _\n{script}exec env --null"]
    printed = subprocess.run(shell, capture_output=True, text=True, check=True).stdout
    seen = dict(line.split("=", 1) for line in printed.split("\0") if line)
    assert {name: value for name, value in seen.items() if name not in ("PWD", "OLDPWD", "SHLVL", "_")} == expected


def test_certificates_are_named_where_the_build_has_them() -> None:
    lines = settings.exports({"SSL_CERT_FILE": "/machine/bundle.crt"}, with_ca=True).splitlines()
    assert "export SSL_CERT_FILE=/run/secrets/ca" in lines
    assert "export PIP_CERT=/run/secrets/ca" in lines


def test_the_certificates_are_those_that_the_machine_names(tmp_path: Path) -> None:
    named, default = tmp_path / "named.crt", tmp_path / "default.crt"
    assert settings.ca_bundle({"SSL_CERT_FILE": str(named)}, default) is None
    default.write_text("default")
    assert settings.ca_bundle({"SSL_CERT_FILE": str(named)}, default) == default
    named.write_text("named")
    assert settings.ca_bundle({"SSL_CERT_FILE": str(named)}, default) == named


def test_secrets_are_gone_after_the_build() -> None:
    with settings.secret_options({"PIP_INDEX_URL": "https://u:p@example.org/"}) as options:
        machine = Path(options[0].rpartition("src=")[2])
        assert "u:p@example.org" in machine.read_text()
        assert machine.parent.stat().st_mode & 0o077 == 0
    assert not machine.exists()


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        pytest.param("127.0.0.1:5001/octavo-runtime:1", True, id="ipv4"),
        pytest.param("localhost:5000/octavo-runtime:1", True, id="name"),
        pytest.param("localhost/octavo-runtime:1", True, id="without-port"),
        pytest.param("[::1]:5000/octavo-runtime:1", True, id="ipv6"),
        pytest.param("10.0.0.1:5000/octavo-runtime:1", False, id="private-network"),
        pytest.param("registry.example.org/team/octavo-runtime:1", False, id="elsewhere"),
        pytest.param("localhost.example.org/octavo-runtime:1", False, id="looks-like-it"),
    ],
)
def test_only_loopback_registries_speak_plain_http(reference: str, expected: bool) -> None:
    assert registry.is_loopback(reference) is expected


class _Manifests(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(200 if self.path == "/v2/octavo-operator/manifests/held" else 404)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Manifests) as http:
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield f"127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


def test_a_tag_is_held_only_if_the_registry_says_so(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert registry.holds(f"{server}/octavo-operator:held")
    assert not registry.holds(f"{server}/octavo-operator:other")
    assert not registry.holds("127.0.0.1:9/octavo-operator:held")


def test_a_failed_command_shows_the_end_of_its_output_and_keeps_all_of_it() -> None:
    with pytest.raises(ImagesError, match=r"testing a failure failed: sh gave 3[\s\S]*line 99$") as caught:
        commands.run("testing a failure", ["sh", "-c", "for i in $(seq 0 99); do echo line $i; done; exit 3"], {})
    assert "line 0\n" not in str(caught.value)
    assert "line 0\n" in (commands.LOGS / "testing-a-failure.log").read_text()


def test_a_command_that_is_missing_has_no_output() -> None:
    assert commands.output("octavo-no-such-program") is None
    assert commands.output("false") is None
    assert commands.output("echo", "text") == "text"
