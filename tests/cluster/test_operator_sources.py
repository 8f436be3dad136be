"""Every place that weights come from and are kept at, each served by real pods. The services start together: loading takes time.

The hub listens on the node's address, where pods reach it.
"""

import os
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from octavo_operator.names import CACHE_DIR
from octavo_runtime.source.hub import CHUNK_BYTES
from tests.cluster import model_image, preloading
from tests.cluster.conversation import ask, port_forward
from tests.cluster.installation import Images
from tests.cluster.kubectl import Kubectl, condition, wait_for
from tests.cluster.onenode import layout
from tests.operator.live import Object, applied, service, shared_namespace, wait_for_condition
from tests.runtime.hub import Hub, Repository, running_hub
from tests.runtime.server.tiny_model import save_tiny_chat_model

READY_S = 240.0
RUNTIME_USER = 65532
TOKEN = "hf_for-tests"
COMMIT = "1" * 40
SMALL_MODEL = "file:///models/smollm2.gguf"
SERVICES = ("hub-claim", "hub-folder", "hub-pod", "image", "claim")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_chat_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def hub(own_cluster: None, model: Path) -> Iterator[Hub]:
    """Of one model, which needs a token; the connection is cut once."""
    with running_hub({"org/tiny": Repository.of(model, TOKEN)}, layout.NODE_IP) as hub:
        hub.cut_after["model.safetensors"] = [CHUNK_BYTES + 5]
        yield hub


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl, octavo: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


@pytest.fixture(scope="module")
def folders(namespace: Kubectl, model: Path) -> Iterator[Path]:
    """Folders of the node: two volumes with their claims, two that pods may mount by their paths."""
    root = layout.VOLUMES / (namespace.namespace or "")
    for name in ("cache", "weights", "node", "kept"):
        (root / name).mkdir(parents=True)
    tiny_folder = root / "weights" / "tiny"
    tiny_folder.mkdir()
    for file in model.iterdir():
        shutil.copyfile(file, tiny_folder / file.name)  # for everybody to read, as the model's own files are not
    os.chown(root / "node", RUNTIME_USER, RUNTIME_USER)
    # A kubelet gives no group to the files of a hostPath volume, which stands for a network's here.
    os.chown(root / "cache", RUNTIME_USER, RUNTIME_USER)
    volumes = [item for name in ("cache", "weights") for item in claim(name, root / name, namespace.namespace or "")]
    namespace.apply(*volumes)
    yield root
    for item in volumes:
        if item["kind"] == "PersistentVolume":
            namespace.delete("persistentvolume", item["metadata"]["name"], wait=False)
        else:
            namespace.delete("persistentvolumeclaim", item["metadata"]["name"], wait=False)
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def starting(namespace: Kubectl, folders: Path, hub: Hub, model: Path, images: Images) -> Iterator[Kubectl]:
    """All services, just applied, and what preloads the small model and the hub's into the folder `kept`."""
    namespace.apply(
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hub"}, "stringData": {"token": TOKEN}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"keys": "none\nother"}},
    )
    image = model_image.push(namespace.access.registry, "octavo-test-model", "1", model, "models/tiny")
    caches: dict[str, Object | None] = {
        "hub-claim": {"persistentVolumeClaim": {"claimName": "cache"}},
        "hub-folder": {"hostPath": {"path": str(folders / "node")}},
        "hub-pod": None,
    }
    services = [of_hub(name, hub, cache) for name, cache in caches.items()]
    services[0]["spec"] |= {"replicas": 2, "auth": {"apiKeySecretRef": {"name": "keys", "key": "keys"}}}
    services += [tiny("image", f"oci://{image}/models/tiny"), tiny("claim", "pvc://weights/tiny", replicas=2)]
    assert [item["metadata"]["name"] for item in services] == list(SERVICES)
    kept = {
        "models": [SMALL_MODEL, "hf://org/tiny@main"],
        "hubTokenSecret": {"name": "hub"},
        "env": [{"name": "HF_ENDPOINT", "value": hub.endpoint}],
    }
    namespace.apply(preloading.daemon(namespace.namespace or "", images.runtime_demo, str(folders / "kept"), **kept))
    with ExitStack() as stack:
        stack.callback(namespace.delete, "daemonset", preloading.NAME, wait=False)
        for item in services:
            stack.enter_context(applied(namespace, item))
        yield namespace


def tiny(name: str, source: str, **spec: object) -> Object:
    """A service of the tiny model."""
    small = {
        "resources": {"cpu": "50m", "memory": "1Gi"},
        "runtime": {"kvCache": {"memory": "32Mi"}, "maxModelLen": 256},
    }
    return service(name, **{**small, "model": {"source": source}, **spec})


def of_hub(name: str, hub: Hub, cache: Object | None) -> Object:
    item = tiny(name, "hf://org/tiny@main")
    item["spec"]["model"] |= {"tokenSecretRef": {"name": "hub", "key": "token"}} | ({"cache": cache} if cache else {})
    runtime = {"name": "runtime", "env": [{"name": "HF_ENDPOINT", "value": hub.endpoint}]}
    item["spec"]["podTemplate"] = {"spec": {"containers": [runtime]}}
    return item


def claim(name: str, folder: Path, namespace: str) -> list[Object]:
    """A volume in a folder of the node that pods of several nodes may mount, and the claim of that name on it."""
    size = {"storage": "1Gi"}
    shared = {"accessModes": ["ReadWriteMany"], "storageClassName": ""}
    volume = {
        **shared,
        "capacity": size,
        "persistentVolumeReclaimPolicy": "Retain",
        "hostPath": {"path": str(folder)},
        "claimRef": {"namespace": namespace, "name": name},
    }
    wanted = {**shared, "resources": {"requests": size}}
    return [
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{namespace}-{name}"}, "spec": volume},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": wanted},
    ]


def answers(kubectl: Kubectl, name: str) -> int:
    """Tokens of an answer, of any of the service's pods."""
    with port_forward(kubectl, f"service/{name}", 80) as url:
        return ask(url, name, "Hi", lambda _: None, limit_tokens=4).tokens


@pytest.mark.parametrize("name", SERVICES)
def test_is_served_wherever_its_weights_come_from(starting: Kubectl, name: str) -> None:
    found = wait_for_condition(starting, name, "Ready", "True", timeout_s=READY_S)
    assert answers(starting, name) > 0
    assert condition(found, "MemoryFits")["status"] == "True", "its sizes were read where its weights lie"


def test_pods_that_share_a_claim_download_once_and_go_on_after_a_cut(
    starting: Kubectl, hub: Hub, folders: Path
) -> None:
    wait_for_condition(starting, "hub-claim", "Ready", "True", timeout_s=READY_S)
    wait_for_condition(starting, "hub-folder", "Ready", "True", timeout_s=READY_S)
    wait_for_condition(starting, "hub-pod", "Ready", "True", timeout_s=READY_S)
    wait_for(lambda: preloading.holds(starting), READY_S, "the daemon to hold its models")
    inspected = f"bytes=0-{(64 << 10) + 7}"
    downloads = [one for one in hub.ranges("model.safetensors") if one != inspected]
    assert downloads.count(None) == 4, "one for the claim's two pods, each of the node's folders, and the pod's own"
    assert [one for one in downloads if one is not None] == [f"bytes={CHUNK_BYTES}-"]
    for cache in ("cache", "node", "kept"):
        assert (folders / cache / "models" / "org--tiny" / COMMIT / "model.safetensors").is_file()
        assert list((folders / cache / "weights").glob("*.octavo*")) or list((folders / cache / "weights").iterdir())


def test_a_new_pod_finds_what_was_downloaded_before(starting: Kubectl, hub: Hub) -> None:
    wait_for_condition(starting, "hub-folder", "Ready", "True", timeout_s=READY_S)
    asked = len(hub.ranges("model.safetensors"))
    [old] = starting.list("pods", "serving.octavo.dev/service=hub-folder")
    starting.delete("pod", old["metadata"]["name"], wait=False)
    wait_for(lambda: replaced(starting, old["metadata"]["uid"]), 60, "a new pod to be ready")
    assert len(hub.ranges("model.safetensors")) == asked


def replaced(kubectl: Kubectl, uid: str) -> bool:
    pods = kubectl.list("pods", "serving.octavo.dev/service=hub-folder")
    ready = [pod for pod in pods if condition(pod, "Ready").get("status") == "True"]
    return any(pod["metadata"]["uid"] != uid for pod in ready)


def test_keys_are_asked_for_and_not_by_probes(starting: Kubectl) -> None:
    wait_for_condition(starting, "hub-claim", "Ready", "True", timeout_s=READY_S)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with port_forward(starting, "service/hub-claim", 80) as url:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            opener.open(f"{url}/v1/models", timeout=10)
        for path in ("/v1/models", "/metrics"):
            asked = urllib.request.Request(f"{url}{path}", headers={"Authorization": "Bearer other"})
            assert opener.open(asked, timeout=10).status == 200
        assert opener.open(f"{url}/metrics", timeout=10).status == 200


def test_a_model_that_cannot_be_had_says_why_and_what_to_do(starting: Kubectl, hub: Hub) -> None:
    wrong = of_hub("wrong", hub, None)
    wrong["spec"]["model"]["source"] = "hf://org/tiny@v9"
    folder = tiny("folder", "hf://org/tiny")
    folder["spec"]["model"]["cache"] = {"hostPath": {"path": "/etc"}}
    with applied(starting, wrong, folder):
        wait_for_condition(starting, "folder", "SpecValid", "False", says="HostPathNotAllowed")
        wait_for_condition(starting, "wrong", "MemoryFits", "Unknown", says="has no revision 'v9'", timeout_s=90)
        wait_for_condition(
            starting, "wrong", "Ready", "False", says="has no revision 'v9': give a branch", timeout_s=90
        )


def test_a_pod_starts_from_what_the_nodes_daemon_keeps_in_memory(starting: Kubectl, folders: Path) -> None:
    wait_for(lambda: preloading.holds(starting), READY_S, "the daemon to hold its models")
    kept = folders / "kept"
    [packed] = (kept / "weights").glob("smollm2*.packed")
    item = service("preloaded", model={"source": SMALL_MODEL, "cache": {"hostPath": {"path": str(kept)}}})
    with applied(starting, item):
        wait_for_condition(starting, "preloaded", "Ready", "True", timeout_s=READY_S)
        log = starting.run("logs", "deployment/preloaded")
        assert f"weights cache: mapped {CACHE_DIR}/weights/{packed.name}" in log
