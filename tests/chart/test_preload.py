"""The DaemonSet that keeps packed weights in the nodes' memory: what it runs, and where a service's pods find the same."""

import pytest

from octavo_operator.desired import attachments
from octavo_runtime.cli import parser
from tests.chart.rendering import VALUES, Object, rendered, template
from tests.operator.samples import parsed as service

NAME = ("DaemonSet", "octavo-preload")
MODEL = "file:///models/smollm2.gguf"
FOLDER = "/var/lib/octavo"
ASKED: Object = {"enabled": True, "models": [MODEL, "/models/other.gguf"], "hostPath": FOLDER}
ALLOWED: Object = {"hostPaths": ["/var/lib/octavo/"]}


def pod_of(**values: object) -> Object:
    found: Object = rendered(preload={**ASKED, **values}, allow=ALLOWED)[NAME]["spec"]["template"]["spec"]
    return found


def volumes(pod: Object) -> dict[str, Object]:
    return {volume["name"]: volume for volume in pod["volumes"]}


def test_there_is_none_unless_asked_for() -> None:
    assert NAME not in rendered()


def test_it_runs_what_the_runtime_understands() -> None:
    [container] = pod_of(lock=True)["containers"]
    assert container["image"] == VALUES["runtime"]["image"]
    [program, *command] = container["command"]
    asked = parser().parse_args([*command, *container["args"]])
    assert (program, asked.command, asked.models, asked.lock) == ("octavo", "preload", ASKED["models"], True)
    asks = parser().parse_args(container["readinessProbe"]["exec"]["command"][1:])
    assert (asks.status, asks.weights_cache) == (True, asked.weights_cache)


def test_a_service_that_names_the_folder_finds_there_what_was_packed() -> None:
    pod = pod_of()
    [container] = pod["containers"]
    [cache] = attachments.of_pod(service(model={"source": MODEL, "cache": {"hostPath": {"path": FOLDER}}}))
    assert {**cache.as_volume} == volumes(pod)["cache"]
    assert cache.as_mount in container["volumeMounts"]
    assert f"--weights-cache={cache.flags['weights-cache']}" in container["args"]


def test_a_service_of_a_hubs_model_finds_there_what_was_downloaded() -> None:
    source = "hf://org/name@main"
    token = {"name": "hub", "key": "secret"}
    endpoint = {"name": "HF_ENDPOINT", "value": "http://hub.example"}
    pod = pod_of(models=[source], hubTokenSecret=token, env=[endpoint])
    [container] = pod["containers"]
    model = {"source": source, "tokenSecretRef": token, "cache": {"hostPath": {"path": FOLDER}}}
    attached = {attachment.name: attachment for attachment in attachments.of_pod(service(model=model))}
    assert attached["hub-token"].as_volume == volumes(pod)["hub-token"]
    assert attached["hub-token"].as_mount in container["volumeMounts"]
    for name, value in {**attached["hub-token"].flags, **attached["cache"].flags}.items():
        assert f"--{name}={value}" in container["args"]
    assert endpoint in container["env"]
    asked = parser().parse_args([*container["command"][1:], *container["args"]])
    assert asked.models == [source]


def test_it_is_locked_down_as_the_other_pods_are() -> None:
    pod = pod_of()
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["runAsUser"]) == (True, 65532)
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["automountServiceAccountToken"] is False
    assert "initContainers" not in pod


def test_only_what_gives_the_folder_is_root_and_can_do_nothing_else() -> None:
    pod = pod_of(giveFolder=True)
    [gives] = pod["initContainers"]
    assert gives["command"] == ["chown", "65532:65532", "/var/cache/octavo"]
    assert gives["securityContext"]["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN"]}
    assert [mount["name"] for mount in gives["volumeMounts"]] == ["cache"]


def test_where_it_runs_can_be_chosen() -> None:
    chosen = {
        "nodeSelector": {"pool": "cpu"},
        "tolerations": [{"key": "cpu", "operator": "Exists"}],
        "priorityClassName": "serving",
        "imagePullSecrets": ["registry"],
        "image": "registry.example/other:2",
    }
    pod = pod_of(**chosen)
    assert {name: pod[name] for name in ("nodeSelector", "tolerations", "priorityClassName")} == {
        name: chosen[name] for name in ("nodeSelector", "tolerations", "priorityClassName")
    }
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["containers"][0]["image"] == chosen["image"]


@pytest.mark.parametrize(
    ("values", "says"),
    [
        pytest.param({"models": []}, "preload.models is empty", id="no model"),
        pytest.param({"models": ["pvc://claim/model"]}, "models", id="a model of one namespace"),
        pytest.param({"hostPath": ""}, "set preload.hostPath", id="no folder"),
        pytest.param({"hostPath": "/var/lib/octavo-2"}, "is below none of allow.hostPaths", id="a folder not allowed"),
        pytest.param({"hostPath": "/var/lib/octavo/../x"}, "hostPath", id="a folder that climbs"),
        pytest.param({"hostPath": "/"}, "the root of a file system", id="the root"),
        pytest.param({"hostPath": "/var//"}, "a folder of the node's own", id="a folder of the node"),
        pytest.param({"socket": "/x"}, "socket", id="an unknown value"),
    ],
)
def test_refuses_what_could_not_work(values: Object, says: str) -> None:
    done = template({"preload": {**ASKED, **values}, "allow": ALLOWED})
    assert done.returncode != 0
    assert says in done.stderr


def test_refuses_to_run_without_an_image() -> None:
    done = template({"preload": ASKED, "allow": ALLOWED, "runtime": {"image": ""}})
    assert "set preload.image or runtime.image" in done.stderr
