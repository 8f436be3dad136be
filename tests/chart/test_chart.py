"""The chart as helm renders it: what it installs, what it refuses."""

import base64
import re

import pytest
import yaml

from octavo_operator import __version__, options
from octavo_operator.service import Key
from octavo_operator.webhook import PATH
from tests.chart.render import CHART
from tests.chart.rendering import VALUES, Object, helm, operator_pod, rendered, rules, template


def test_lints_without_a_warning() -> None:
    done = helm("lint", "--strict", str(CHART), "--values=-", values=VALUES)
    assert done.returncode == 0, done.stdout


def test_its_version_is_the_packages() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_installs_the_operator_for_the_whole_cluster() -> None:
    assert set(rendered()) == {
        ("CustomResourceDefinition", "inferenceservices.serving.octavo.dev"),
        ("ServiceAccount", "octavo-operator"),
        ("ClusterRole", "octavo-system-octavo-operator"),
        ("ClusterRole", "octavo-system-octavo-operator-edit"),
        ("ClusterRole", "octavo-system-octavo-operator-view"),
        ("ClusterRoleBinding", "octavo-system-octavo-operator"),
        ("Deployment", "octavo-operator"),
        ("PodDisruptionBudget", "octavo-operator"),
        ("Role", "octavo-operator-election"),
        ("RoleBinding", "octavo-operator-election"),
    }


def test_leaves_out_what_is_switched_off() -> None:
    alone = {**VALUES["operator"], "replicas": 1}
    names = {kind for kind, _ in rendered(crds={"install": False}, rbac={"aggregate": False}, operator=alone)}
    assert names == {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Deployment", "Role", "RoleBinding"}


def test_watches_only_the_named_namespaces_and_has_rights_only_there() -> None:
    objects = rendered(watch={"namespaces": ["team-a"]}, rbac={"aggregate": False})
    assert ("ClusterRole", "octavo-system-octavo-operator") not in objects
    assert objects["Role", "octavo-system-octavo-operator"]["metadata"]["namespace"] == "team-a"
    binding = objects["RoleBinding", "octavo-system-octavo-operator"]
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "octavo-operator", "namespace": "octavo-system"}]
    assert "--namespace=team-a" in operator_pod(objects)["containers"][0]["args"]
    everywhere = rules(rendered(), "ClusterRole")
    assert [rule for rule in everywhere if rule not in rules(objects, "Role")] == [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}
    ]


def test_its_replicas_elect_one_and_their_pods_differ_in_node_where_they_can() -> None:
    objects = rendered()
    assert objects["Deployment", "octavo-operator"]["spec"]["replicas"] == 2
    assert options.parse(operator_pod(objects)["containers"][0]["args"], {}).lease == Key(
        "octavo-system", "octavo-operator"
    )
    may = objects["Role", "octavo-operator-election"]["rules"]
    assert [(rule.get("resourceNames"), rule["verbs"]) for rule in may] == [
        (None, ["create"]),
        (["octavo-operator"], ["get", "update"]),
    ]
    spec = objects["PodDisruptionBudget", "octavo-operator"]["spec"]
    assert (spec["maxUnavailable"], spec["unhealthyPodEvictionPolicy"]) == (1, "AlwaysAllow")
    [term] = operator_pod(objects)["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"


AUTHORITY = base64.b64encode(b"-----BEGIN CERTIFICATE-----").decode()
SECRET = {"enabled": True, "existingSecret": "mine", "caBundle": AUTHORITY}
CERT_MANAGER = {"enabled": True, "certManager": {"enabled": True}}


def webhook_of(objects: dict[tuple[str, str], Object]) -> Object:
    [webhook] = objects["ValidatingWebhookConfiguration", "octavo-system-octavo-operator"]["webhooks"]
    found: Object = webhook
    return found


def test_has_no_webhook_unless_asked_for() -> None:
    objects = rendered()
    assert not [name for name in objects if "webhook" in str(name).lower()]
    assert options.parse(operator_pod(objects)["containers"][0]["args"], {}).webhook is None


@pytest.mark.parametrize("values", [pytest.param(SECRET, id="a Secret"), pytest.param(CERT_MANAGER, id="cert-manager")])
def test_its_webhook_can_only_warn(values: Object) -> None:
    webhook = webhook_of(rendered(webhook=values))
    assert (webhook["failurePolicy"], webhook["sideEffects"], webhook["timeoutSeconds"]) == ("Ignore", "None", 2)
    assert [condition["expression"] for condition in webhook["matchConditions"]] == ["object.spec != oldObject.spec"]
    assert webhook["clientConfig"]["service"] == {
        "name": "octavo-operator-webhook",
        "namespace": "octavo-system",
        "path": PATH,
        "port": 443,
    }


def test_its_webhook_shows_the_certificate_that_it_is_given() -> None:
    objects = rendered(webhook=SECRET)
    assert webhook_of(objects)["clientConfig"]["caBundle"] == AUTHORITY
    [volume] = operator_pod(objects)["volumes"]
    assert volume["secret"]["secretName"] == "mine"


def test_its_webhook_can_have_a_certificate_of_cert_manager() -> None:
    objects = rendered(webhook=CERT_MANAGER)
    annotations = objects["ValidatingWebhookConfiguration", "octavo-system-octavo-operator"]["metadata"]["annotations"]
    assert annotations == {"cert-manager.io/inject-ca-from": "octavo-system/octavo-operator-webhook"}
    assert "caBundle" not in webhook_of(objects)["clientConfig"]
    certificate = objects["Certificate", "octavo-operator-webhook"]["spec"]
    assert certificate["dnsNames"] == ["octavo-operator-webhook.octavo-system.svc"]
    assert ("Issuer", "octavo-operator-webhook") in objects
    [volume] = operator_pod(objects)["volumes"]
    assert volume["secret"]["secretName"] == certificate["secretName"]
    theirs = {"enabled": True, "certManager": {"enabled": True, "issuerRef": {"name": "corp", "kind": "ClusterIssuer"}}}
    objects = rendered(webhook=theirs)
    assert ("Issuer", "octavo-operator-webhook") not in objects
    assert objects["Certificate", "octavo-operator-webhook"]["spec"]["issuerRef"] == theirs["certManager"]["issuerRef"]  # type: ignore[index]


def test_its_webhook_looks_only_at_the_namespaces_that_are_watched() -> None:
    [expression] = webhook_of(rendered(webhook=SECRET, watch={"namespaces": ["team-a"]}))["namespaceSelector"][
        "matchExpressions"
    ]
    assert expression == {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["team-a"]}


def test_the_operators_pod_is_locked_down_and_probed() -> None:
    pod = operator_pod(rendered())
    [container] = pod["containers"]
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 65532)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}


def test_the_operator_understands_its_arguments() -> None:
    values = {
        "operator": {**VALUES["operator"], "args": ["--workers=16"], "logLevel": "debug"},
        "watch": {"namespaces": ["a", "b"]},
    }
    found = options.parse(operator_pod(rendered(**values))["containers"][0]["args"], {})
    assert (found.workers, found.log_level, found.namespaces) == (16, "debug", ("a", "b"))
    assert found.runtime_image == VALUES["runtime"]["image"]


VALUE = {"--workers": "2", "--resync": "30", "--watch-timeout": "80", "--discovery": "15.5"}


def test_takes_each_flag_of_the_operator_that_no_other_value_sets(capsys: pytest.CaptureFixture[str]) -> None:
    """Every flag of its help is either refused as what the chart sets, or reaches the operator."""
    with pytest.raises(SystemExit):
        options.parse(["--help"], {})
    known = set(re.findall(r"(?m)^  (?:-h, )?(--[-a-z]+)(?:, (--[-a-z]+))?", capsys.readouterr().out))
    flags = {flag for pair in known for flag in pair if flag} - {"--help"}
    refused = {flag: template(arguments(f"{flag}={VALUE[flag]}" if flag in VALUE else flag)).stderr for flag in flags}
    passed = {flag for flag, error in refused.items() if not error}
    assert passed == {*VALUE, "--inspection", "--no-inspection"}
    for flag in flags - passed:
        assert f"operator.args has {flag}, which the chart sets" in refused[flag]
    options.parse([f"{flag}={value}" for flag, value in VALUE.items()], {})


def test_folders_of_nodes_may_have_dots() -> None:
    found = operator_pod(rendered(allow={"hostPaths": ["/data/.cache", "/srv/a..b"]}))["containers"][0]["args"]
    assert options.parse(found, {}).host_paths == ("/data/.cache", "/srv/a..b")


def test_a_release_with_a_dot_has_a_service_without() -> None:
    words = ["--namespace=octavo-system", "--kube-version=1.37.0", "--values=-"]
    done = helm("template", "octavo.eu", str(CHART), *words, values={**VALUES, "webhook": CERT_MANAGER})
    assert done.returncode == 0, done.stderr
    objects = [item for item in yaml.safe_load_all(done.stdout) if item]
    [service] = [item for item in objects if item["kind"] == "Service"]
    [certificate] = [item for item in objects if item["kind"] == "Certificate"]
    assert service["metadata"]["name"] == "octavo-eu-operator-webhook"
    assert certificate["spec"]["dnsNames"] == ["octavo-eu-operator-webhook.octavo-system.svc"]


def arguments(*given: str) -> Object:
    return {"operator": {**VALUES["operator"], "args": list(given)}}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        pytest.param({"operator": {"image": ""}}, "set operator.image", id="no image"),
        pytest.param({"operator": {"imge": "x:1"}}, "imge", id="a misspelt value"),
        pytest.param({"replicas": 2}, "replicas", id="an unknown value"),
        pytest.param({"watch": {"namespaces": ["Team_A"]}}, "namespaces", id="no namespace's name"),
        pytest.param({"operator": {"image": "x:1", "logLevel": "loud"}}, "logLevel", id="an unknown level"),
        pytest.param({"operator": {"image": "x:1", "replicas": 0}}, "replicas", id="no operator at all"),
        pytest.param(
            {"webhook": {"enabled": True}}, "set webhook.existingSecret", id="a webhook without a certificate"
        ),
        pytest.param(
            {"webhook": {"enabled": True, "existingSecret": "x"}}, "set webhook.caBundle", id="a certificate of nobody"
        ),
        pytest.param(
            {"webhook": {**SECRET, "caBundle": "QUJD"}}, "no base64 of PEM", id="an authority that is not PEM"
        ),
        pytest.param({"webhook": {**SECRET, "caBundle": "pem"}}, "no base64 of PEM", id="an authority not in base64"),
        pytest.param(
            {"webhook": {**CERT_MANAGER, **SECRET}},
            "webhook.existingSecret and webhook.certManager.enabled exclude",
            id="two certificates",
        ),
        pytest.param(
            {"webhook": {**CERT_MANAGER, "caBundle": AUTHORITY}},
            "webhook.caBundle and webhook.certManager.enabled exclude",
            id="two authorities",
        ),
        pytest.param(
            {"webhook": {**CERT_MANAGER, "enabled": False}}, "set webhook.enabled too", id="a certificate of no webhook"
        ),
        pytest.param(
            {"webhook": {"enabled": True, "certManager": {"enabled": True, "issuerRef": {"kind": "ClusterIssuer"}}}},
            "issuerRef.kind is set without issuerRef.name",
            id="an issuer without a name",
        ),
        pytest.param({"allow": {"hostPaths": ["/data/../etc"]}}, "hostPaths", id="a folder that climbs"),
        pytest.param({"allow": {"hostPaths": ["/data/.."]}}, "hostPaths", id="a folder that climbs at its end"),
        pytest.param(arguments("--webhook-port=1"), "operator.args has --webhook-port", id="another webhook port"),
        pytest.param(arguments("--workers=2", "--lease=a/b"), "operator.args has --lease", id="another lease"),
        pytest.param(arguments("--health-port=1"), "operator.args has --health-port", id="another health port"),
        pytest.param(arguments("--metrics-port"), "operator.args has --metrics-port", id="another metrics port"),
        pytest.param(arguments("--namespace=b"), "set watch.namespaces", id="a namespace without a Role"),
        pytest.param(arguments("--allow-host-path=/"), "set allow.hostPaths", id="an allowance past its value"),
        pytest.param(
            arguments("--leader-elect=false"), "the operator does not know: give --discovery=N", id="an unknown flag"
        ),
        pytest.param(arguments("--help"), "operator.args has --help, which the operator does not", id="no work at all"),
        pytest.param(arguments("--workers", "--resync=9"), "as one item, --workers=N", id="a flag with no value"),
        pytest.param(arguments("--workers="), "as one item, --workers=N", id="a flag with an empty value"),
        pytest.param(arguments("--workers=0"), "a number of at least 1", id="no workers"),
        pytest.param(arguments("--workers=2.5"), "a number of at least 1", id="half a worker"),
        pytest.param(arguments("--resync=1m"), "a number of at least 1", id="no number"),
        pytest.param(arguments("--no-inspection=true"), "--no-inspection takes no value", id="a switch with a value"),
    ],
)
def test_refuses_wrong_values_by_name(values: Object, says: str) -> None:
    done = template(values)
    assert done.returncode != 0
    assert says in done.stderr


@pytest.mark.parametrize(
    ("values", "needs", "says"),
    [
        pytest.param(
            {"monitoring": {"podMonitor": {"enabled": True}}},
            "monitoring.coreos.com/v1/PodMonitor",
            "monitoring.podMonitor.enabled is set and the cluster serves no PodMonitor: install",
            id="PodMonitor",
        ),
        pytest.param(
            {"monitoring": {"prometheusRule": {"enabled": True}}},
            "monitoring.coreos.com/v1/PrometheusRule",
            "monitoring.prometheusRule.enabled is set and the cluster serves no PrometheusRule: install",
            id="PrometheusRule",
        ),
        pytest.param(
            {"webhook": CERT_MANAGER},
            "cert-manager.io/v1/Certificate",
            "webhook.certManager.enabled is set and the cluster serves no Certificate: install cert-manager",
            id="cert-manager",
        ),
    ],
)
def test_refuses_what_the_cluster_does_not_serve_where_there_is_one_to_ask(
    values: Object, needs: str, says: str
) -> None:
    refused = template(values, ["v1/Pod"])
    assert refused.returncode != 0
    assert says in refused.stderr
    for served in ([], ["v1/Pod", needs]):
        assert template(values, served).returncode == 0
