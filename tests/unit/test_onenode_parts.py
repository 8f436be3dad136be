"""The one-node cluster's pure parts: progress lines, build keys, the pause image, certificates, command line."""

import io
import json
import subprocess
import sys
import tarfile
from hashlib import sha256
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.cluster.onenode import binaries, certificates, containers, dns, layout, machine
from tests.cluster.onenode.errors import CannotRunHereError, OneNodeError
from tests.cluster.onenode.progress import Step, Ticker, run_steps

REPOSITORY = Path(__file__).parents[2]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_steps_are_numbered_in_plain_lines() -> None:
    out = io.StringIO()
    run_steps([Step("first", lambda: None), Step("second", lambda: None)], out)
    assert out.getvalue() == "[1/2] first\n[2/2] second\n"


def test_a_terminal_gets_one_line_that_is_written_over() -> None:
    out = Terminal()
    with Ticker("waiting", out) as ticker:
        ticker.detail = "for the image"
    assert out.getvalue() == "\r\x1b[Kwaiting\r\x1b[Kwaiting … 0 s\n"


def test_a_failed_step_is_marked_and_ends_the_run() -> None:
    out, ran = io.StringIO(), []

    def fail() -> None:
        raise OneNodeError("no")

    with pytest.raises(OneNodeError):
        run_steps([Step("breaks", fail), Step("never", lambda: ran.append(1))], out)
    assert out.getvalue().endswith("[1/2] breaks … 0 s failed\n")
    assert not ran


def test_each_program_has_its_module_with_pinned_sums() -> None:
    for program in binaries.PROGRAMS.values():
        folder = binaries.GO_MODULES / program.module.folder
        pinned = (folder / "go.mod").read_text()
        assert program.module is binaries.PAUSE or f"v{program.module.version}" in pinned
        assert program.module is binaries.PAUSE or (folder / "go.sum").exists()


def test_a_build_key_follows_flags_and_pins(tmp_path: Path) -> None:
    (tmp_path / "etcd").mkdir()
    (tmp_path / "etcd" / "go.mod").write_text("one")
    keys = {binaries.Module("etcd", "1").key(tmp_path), binaries.Module("etcd", "1", tags="x").key(tmp_path)}
    (tmp_path / "etcd" / "go.mod").write_text("two")
    keys.add(binaries.Module("etcd", "1").key(tmp_path))
    assert len(keys) == 3


def test_the_pause_archive_is_a_consistent_image() -> None:
    with tarfile.open(fileobj=io.BytesIO(containers.pause_archive(b"program"))) as archive:
        files = {entry.name: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]  # no folders
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{sha256(content).hexdigest()}"
    entry = json.loads(files["index.json"])["manifests"][0]
    manifest = json.loads(files[f"blobs/sha256/{entry['digest'].removeprefix('sha256:')}"])
    for blob in (manifest["config"], *manifest["layers"]):
        assert len(files[f"blobs/sha256/{blob['digest'].removeprefix('sha256:')}"]) == blob["size"]


def test_certificates_name_the_kubernetes_identities_and_the_server(tmp_path: Path) -> None:
    certificates.write_all(tmp_path)
    authority = x509.load_pem_x509_certificate((tmp_path / "ca.crt").read_bytes())
    kubelet = x509.load_pem_x509_certificate((tmp_path / "kubelet.crt").read_bytes())
    kubelet.verify_directly_issued_by(authority)
    assert kubelet.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value == "system:nodes"
    server = x509.load_pem_x509_certificate((tmp_path / "apiserver.crt").read_bytes())
    hosts = server.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert layout.NODE_IP in [str(address) for address in hosts.get_values_for_type(x509.IPAddress)]
    assert "kubernetes.default.svc" in hosts.get_values_for_type(x509.DNSName)
    assert (tmp_path / "admin.key").stat().st_mode & 0o077 == 0
    config = yaml.safe_load((tmp_path / "admin.kubeconfig").read_text())
    assert config["current-context"] == layout.CONTEXT


@pytest.mark.parametrize(
    ("platform", "user", "reason"),
    [
        pytest.param("darwin", 0, "it needs Linux, this is darwin", id="not Linux"),
        pytest.param("linux", 1000, "it needs root", id="not root"),
    ],
)
def test_where_it_cannot_run_it_says_so_with_the_remedy(platform: str, user: int, reason: str) -> None:
    with pytest.raises(CannotRunHereError, match=f"{reason}.*OCTAVO_KUBECONFIG and OCTAVO_CONTEXT"):
        machine.check_supported(platform, user)


def test_an_unknown_command_is_an_error() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster.onenode", "upp"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "invalid choice: 'upp'" in done.stderr


@pytest.mark.parametrize(
    ("resolv_conf", "forwards"),
    [
        pytest.param("search example\nnameserver 192.0.2.53\n", True, id="a server"),
        pytest.param("# nameserver 192.0.2.53\n", False, id="none"),
        pytest.param("", False, id="no file"),
    ],
)
def test_names_of_elsewhere_are_asked_where_the_machine_asks_anybody(resolv_conf: str, forwards: bool) -> None:
    assert ("forward . /etc/resolv.conf" in dns.configuration(resolv_conf)) == forwards
