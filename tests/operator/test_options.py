from pathlib import Path

import pytest

from octavo_operator import access, options
from octavo_operator.service import Key


def test_runs_as_a_pod_over_the_whole_cluster_by_default() -> None:
    found = options.parse([], {})
    assert (found.access, found.namespaces, found.runtime_image) == (access.Access(), (), None)


def test_reads_the_environment_and_prefers_options() -> None:
    environment = {
        "OCTAVO_RUNTIME_IMAGE": "a:1",
        "OCTAVO_NAMESPACES": "one, two",
        "OCTAVO_PROMETHEUS_ADDRESS": "http://prometheus:9090",
    }
    found = options.parse([], environment)
    assert (found.runtime_image, found.namespaces) == ("a:1", ("one", "two"))
    assert found.prometheus_url == "http://prometheus:9090"
    found = options.parse(["--runtime-image=b:2", "--namespace=three"], environment)
    assert (found.runtime_image, found.namespaces) == ("b:2", ("three",))


def test_nothing_is_allowed_that_is_not_named() -> None:
    assert (options.parse([], {}).host_paths, options.parse([], {}).powers) == ((), frozenset())
    allowing = ["--allow-host-path=/data", "--allow-host-path=/srv/models", "--allow-in-pod-template=privileged"]
    found = options.parse(allowing, {}).installation
    assert (found.host_paths, found.powers) == (("/data", "/srv/models"), frozenset({"privileged"}))


def test_a_kubeconfig_is_used_only_with_its_context() -> None:
    found = options.parse(["--kubeconfig=/k", "--context=c"], {"KUBECONFIG": "/never"})
    assert found.access == access.Access(Path("/k"), "c")


def test_stands_by_and_warns_only_where_asked_to() -> None:
    found = options.parse([], {})
    assert (found.lease, found.webhook, found.watch_timeout_s, found.discovery_s) == (None, None, 70.0, 60.0)
    found = options.parse(["--lease=a/b", "--webhook-certificates=/c", "--webhook-port=1"], {})
    assert (found.lease, found.webhook) == (Key("a", "b"), options.Webhook(1, Path("/c")))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        pytest.param(["--kubeconfig=/k"], "--kubeconfig and --context go together", id="file without context"),
        pytest.param(["--context=c"], "--kubeconfig and --context go together", id="context without file"),
        pytest.param(["--names=x"], "unrecognized arguments: --names=x", id="unknown option"),
        pytest.param(["--workers=0"], "--workers is 0: give at least 1", id="no workers"),
        pytest.param(["--prometheus-address=prometheus:9090"], "give a URL, http://", id="address without scheme"),
        pytest.param(["--allow-host-path=data"], "--allow-host-path is data: give an absolute", id="relative folder"),
        pytest.param(["--allow-host-path=/data/.."], "without '..'", id="folder that climbs"),
        pytest.param(["--allow-in-pod-template=all"], "invalid choice: 'all'", id="unknown power"),
        pytest.param(["--resync=0"], "--resync is 0.0: give at least 1 second", id="no pause"),
        pytest.param(["--watch-timeout=0"], "--watch-timeout is 0.0: give at least 1 second", id="no patience"),
        pytest.param(["--discovery=0.5"], "--discovery is 0.5: give at least 1 second", id="no rest"),
        pytest.param(["--health-port=65536"], "--health-port is 65536: give a port, 0 to 65535", id="a port too high"),
        pytest.param(["--metrics-port=-1"], "--metrics-port is -1: give a port", id="a port below zero"),
        pytest.param(["--webhook-port=99999"], "--webhook-port is 99999: give a port", id="webhook port too high"),
        pytest.param(["--namespace=Team_A"], "--namespace is Team_A: give a namespace's name", id="no namespace"),
        pytest.param(["--namespace="], "--namespace is : give a namespace's name", id="an empty namespace"),
        pytest.param(["--lease=a/b/c"], "--lease is a/b/c: give NAMESPACE/NAME", id="a lease with a part too many"),
        pytest.param(["--lease=octavo"], "--lease is octavo: give NAMESPACE/NAME", id="a lease of no namespace"),
    ],
)
def test_refuses_with_the_option_and_the_remedy(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        options.parse(arguments, {})
    assert says in capsys.readouterr().err


def test_a_namespace_of_the_environment_is_looked_at_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options.parse([], {"OCTAVO_NAMESPACES": "team-a,Team_B"})
    assert "Team_B" in capsys.readouterr().err


def test_a_lease_is_called_as_its_release_which_may_have_a_dot() -> None:
    assert options.parse(["--lease=a/octavo.eu-operator"], {}).lease == Key("a", "octavo.eu-operator")


@pytest.mark.parametrize("default", ["8081", "8080", "9443", "8", "600.0", "70.0", "60.0", "info"])
def test_help_says_what_holds_by_default(default: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options.parse(["--help"], {})
    assert f"(default: {default})" in " ".join(capsys.readouterr().out.split())


def test_models_are_inspected_unless_told_otherwise() -> None:
    assert options.parse([], {}).installation.inspects
    assert not options.parse(["--no-inspection"], {}).installation.inspects
