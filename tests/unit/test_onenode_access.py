"""Which cluster the variables name."""

from pathlib import Path

import pytest

from tests.cluster.access import AccessError, resolve
from tests.cluster.onenode import binaries, layout

KUBECTL_AND_HELM = ("kubectl", "helm")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    (tmp_path / "config").touch()
    return str(tmp_path / "config")


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A PATH with both programs, on a machine that has built none."""
    monkeypatch.setenv("OCTAVO_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in KUBECTL_AND_HELM:
        (folder / name).touch(mode=0o755)
    return str(folder)


@pytest.mark.parametrize(
    "environ",
    [
        pytest.param({}, id="nothing"),
        pytest.param(
            {"OCTAVO_KUBECONFIG": "", "OCTAVO_CONTEXT": "", "REGISTRY": ""}, id="all empty, as make exports them"
        ),
        pytest.param({"KUBECONFIG": "/etc/production"}, id="a kubeconfig of the shell"),
    ],
)
def test_without_the_variables_it_is_the_one_node_cluster(environ: dict[str, str]) -> None:
    access = resolve(environ)
    assert not access.is_foreign
    assert (access.kubeconfig, access.context, access.registry) == (layout.KUBECONFIG, layout.CONTEXT, layout.REGISTRY)


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        pytest.param(
            {"OCTAVO_CONTEXT": "kind"}, "OCTAVO_CONTEXT is set and OCTAVO_KUBECONFIG is not", id="only the context"
        ),
        pytest.param(
            {"OCTAVO_KUBECONFIG": "/there"},
            "OCTAVO_KUBECONFIG is set and OCTAVO_CONTEXT is not",
            id="only the kubeconfig",
        ),
        pytest.param({"OCTAVO_KUBECONFIG": "/there", "OCTAVO_CONTEXT": "kind"}, "set REGISTRY", id="no registry"),
        pytest.param(
            {"OCTAVO_KUBECONFIG": "/not/there", "OCTAVO_CONTEXT": "kind", "REGISTRY": "r"},
            "no file /not/there",
            id="no file",
        ),
    ],
)
def test_a_half_named_cluster_is_an_error_that_says_what_is_missing(environ: dict[str, str], message: str) -> None:
    with pytest.raises(AccessError, match=message):
        resolve(environ)


def test_a_named_cluster_is_used_with_the_programs_on_path(kubeconfig: str, tools: str) -> None:
    environ = {"OCTAVO_KUBECONFIG": kubeconfig, "OCTAVO_CONTEXT": "kind", "REGISTRY": "registry:5000", "PATH": tools}
    access = resolve(environ)
    assert access.is_foreign
    assert (access.kubeconfig, access.context, access.registry) == (Path(kubeconfig), "kind", "registry:5000")
    assert [access.kubectl, access.helm] == [Path(tools) / name for name in KUBECTL_AND_HELM]


def test_a_named_cluster_without_helm_anywhere_is_an_error(kubeconfig: str, tools: str) -> None:
    (Path(tools) / "helm").unlink()
    environ = {"OCTAVO_KUBECONFIG": kubeconfig, "OCTAVO_CONTEXT": "kind", "REGISTRY": "registry:5000", "PATH": tools}
    with pytest.raises(AccessError, match="helm is not on PATH"):
        resolve(environ)


def test_programs_of_envtest_are_honoured_where_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kubectl").touch()
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    assert binaries.path("kubectl") == tmp_path / "kubectl"
    assert binaries.path("etcd").parent != tmp_path
    assert binaries.path("kubelet").parent != tmp_path
