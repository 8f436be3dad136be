"""Services with pods of the real runtime image: ready and answering, rolled, placed on GPUs; and what a pod that fails says."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.conversation import Answer, ask, metrics, port_forward
from tests.cluster.installation import Images
from tests.cluster.kubectl import Kubectl, condition, wait_for
from tests.operator.live import KIND, Object, applied, service, shared_namespace, versions, wait_for_condition

READY_S = 240.0


@pytest.fixture(scope="module")
def namespace(cluster: Kubectl) -> Iterator[Kubectl]:
    with shared_namespace(cluster) as kubectl:
        yield kubectl


@pytest.fixture(scope="module")
def served(octavo: Kubectl, namespace: Kubectl) -> Iterator[Kubectl]:
    """A namespace with the service `chat`, Ready: shared, since loading takes seconds. Tests leave it Ready."""
    with applied(namespace, service("chat", replicas=1)):
        wait_for_condition(namespace, "chat", "Ready", "True", timeout_s=READY_S)
        yield namespace


def pods(kubectl: Kubectl, name: str) -> list[Object]:
    """The pods of a service that are not ending."""
    found = kubectl.list("pods", f"serving.octavo.dev/service={name}")
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def pressure_levels(kubectl: Kubectl, name: str) -> list[int]:
    found = kubectl.get(KIND, name) or {}
    return [pod.get("pressureLevel", -1) for pod in found["status"].get("pods", ())]


def chat(kubectl: Kubectl, name: str) -> str:
    """One short answer of a pod that the Service chooses."""
    with port_forward(kubectl, f"service/{name}", 80) as url:
        return ask(url, name, "Say yes.", lambda _: None, limit_tokens=4).text


def test_is_ready_and_answers_under_its_name(served: Kubectl) -> None:
    found = served.get(KIND, "chat")
    assert found is not None
    status = found["status"]
    assert (status["replicas"], status["readyReplicas"], status["updatedReplicas"]) == (1, 1, 1)
    conditions = {entry["type"]: entry["status"] for entry in status["conditions"]}
    assert conditions == {
        "Ready": "True",
        "Available": "True",
        "Reconciling": "False",
        "Stalled": "False",
        "SpecValid": "True",
        "MemoryFits": "True",
        "CapacityAvailable": "True",
        "RolloutBlocked": "False",
        "Degraded": "False",
    }
    [pod] = pods(served, "chat")
    assert [one["name"] for one in status["pods"]] == [pod["metadata"]["name"]]
    assert status["runtimeImage"] == pod["spec"]["containers"][0]["image"]
    assert chat(served, "chat")


QUESTIONS = (
    "What is the capital of France?",
    "Why is the sky blue?",
    "Tell me a short story about a printer who folds large sheets of paper into small books.",
    "Name three colours.",
)


def test_32_answers_at_once_are_those_given_alone_and_leave_no_block(served: Kubectl) -> None:
    with port_forward(served, "service/chat", 80) as url, ThreadPoolExecutor(32) as pool:

        def answer(number: int) -> Answer:
            return ask(url, "chat", QUESTIONS[number % 4], lambda _: None, limit_tokens=3 + number // 2)

        alone = [ask(url, "chat", question, lambda _: None, limit_tokens=20).text for question in QUESTIONS]
        answers = list(pool.map(answer, range(32)))
        for number, found in enumerate(answers):
            assert found.text
            assert alone[number % 4].startswith(found.text)
        used = "octavo_kv_block_utilization"
        wait_for(lambda: [line.split()[-1] for line in metrics(url, (used,))] == ["0.0"], 10, "all blocks to be free")


def test_writes_nothing_while_nothing_changes(served: Kubectl) -> None:
    """Each of these makes the operator look again: a foreign label on the child and on the service."""
    wait_for(lambda: pressure_levels(served, "chat") == [0], 30, "the status to have seen that earlier load is over")
    before = versions(served, "chat")
    served.run("label", KIND, "chat", "--overwrite", "seen=once")
    wait_for(lambda: versions(served, "chat")[KIND] != before[KIND], 10, "the label to be there")
    labelled = versions(served, "chat")
    served.run("annotate", "pods", "--selector=serving.octavo.dev/service=chat", "--overwrite", "seen=once")
    wait_for_condition(served, "chat", "Ready", "True")
    assert versions(served, "chat") == {**before, KIND: labelled[KIND]}


def test_runs_with_no_rights_and_a_read_only_disk(served: Kubectl) -> None:
    [pod] = pods(served, "chat")
    name = pod["metadata"]["name"]
    assert served.run("exec", name, "--", "id", "-u").strip() == "65532"
    checks = ["! -w /", "! -w /usr", "-w /tmp", "-w /run/octavo", "! -e /var/run/secrets/kubernetes.io"]
    check = " && ".join(f"test {condition}" for condition in checks) + " && echo locked"
    assert served.run("exec", name, "--", "sh", "-c", check).strip() == "locked"


def test_a_stopped_pod_finishes_its_answer_first(served: Kubectl) -> None:
    [old] = pods(served, "chat")
    name = old["metadata"]["name"]
    pieces: list[str] = []

    def show(text: str) -> None:
        pieces.append(text)
        if len(pieces) == 1:
            served.delete("pod", name, wait=False)

    with port_forward(served, f"pod/{name}", 8000) as url:
        answer = ask(url, "chat", "Tell me a long story about paper.", show, limit_tokens=96)
    assert answer.tokens == 96
    wait_for(lambda: served.get("pod", name) is None, 60, "the pod to go once nothing is in flight")
    wait_for_condition(served, "chat", "Ready", "True", timeout_s=READY_S)


def test_a_change_of_the_spec_rolls_without_a_gap(served: Kubectl) -> None:
    [old] = pods(served, "chat")
    served.patch(KIND, "chat", {"spec": {"runtime": {"maxNumSeqs": 8}}})
    wait_for_condition(served, "chat", "Reconciling", "True")
    assert chat(served, "chat"), "the old pod answers while the new one loads"
    wait_for_condition(served, "chat", "Ready", "True", timeout_s=READY_S)
    [new] = pods(served, "chat")
    assert new["metadata"]["uid"] != old["metadata"]["uid"]
    assert "--max-num-seqs=8" in new["spec"]["containers"][0]["args"]
    assert chat(served, "chat")


def test_a_change_that_cannot_be_served_leaves_the_old_pod_and_says_what_is_wrong(served: Kubectl) -> None:
    served.patch(KIND, "chat", {"spec": {"model": {"source": "file:///models/missing.gguf"}}})
    found = wait_for_condition(served, "chat", "Ready", "False", says="missing.gguf", timeout_s=120)
    assert condition(found, "Ready")["reason"] == "PodsNotReady"
    assert chat(served, "chat"), "the old pod answers"
    served.patch(KIND, "chat", {"spec": {"model": {"source": "file:///models/smollm2.gguf"}}})
    wait_for_condition(served, "chat", "Ready", "True", timeout_s=READY_S)


def test_suspending_stops_the_pods_and_resuming_starts_them(served: Kubectl) -> None:
    """The last one of the shared service, which need not be Ready after it."""
    served.patch(KIND, "chat", {"spec": {"suspend": True}})
    found = wait_for_condition(served, "chat", "Ready", "True", says="Suspended", timeout_s=60)
    assert found["spec"]["replicas"] == 1
    wait_for_condition(served, "chat", "Available", "False")
    assert not served.list("pods", "serving.octavo.dev/service=chat"), "the pod has finished, too"
    served.patch(KIND, "chat", {"spec": {"suspend": False}})
    wait_for(lambda: pods(served, "chat"), 30, "a pod to come back")


def test_gpus_are_asked_for_and_counted_by_the_scheduler(
    octavo: Kubectl, namespace: Kubectl, own_cluster: None
) -> None:
    """The node declares 8 GPUs and has none: the pods are placed as if, and the runtime says that it finds no GPU."""
    fits = service("fits", device="gpu", parallelism={"tensor": 3})
    huge = service("huge", device="gpu", parallelism={"tensor": 3}, replicas=3)
    with applied(namespace, fits, huge):
        short = "Insufficient nvidia.com/gpu"
        wait_for(lambda: any(short in reason for reason in reasons(namespace, "huge")), 90, "too few GPUs to be told")
        [pod] = wait_for(lambda: placed(namespace, "fits"), 60, "the pod on a node")
        wait_for_condition(namespace, "fits", "Ready", "False", says="exit code", timeout_s=120)
    [container] = pod["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == "3"
    volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
    assert volumes["shm"]["emptyDir"]["medium"] == "Memory"


def reasons(kubectl: Kubectl, name: str) -> list[str]:
    """What the status says of the service's pods."""
    found = kubectl.get(KIND, name) or {}
    return [one.get("reason", "") for one in found.get("status", {}).get("pods", ())]


def placed(kubectl: Kubectl, name: str) -> list[Object]:
    return [pod for pod in pods(kubectl, name) if "nodeName" in pod["spec"]]


def test_a_pod_that_crashes_says_why(octavo: Kubectl, namespace: Kubectl) -> None:
    """Its source is taken literally, though Kubernetes would expand it."""
    with applied(namespace, service("crash", model={"source": "file:///models/$(HOME).gguf"})):
        said = wait_for(lambda: [one for one in reasons(namespace, "crash") if "exit code" in one], 120, "its end")
        assert "/models/$(HOME).gguf" in said[0]
        wait_for_condition(namespace, "crash", "Stalled", "False")


def test_an_image_that_cannot_be_pulled_is_named(octavo: Kubectl, namespace: Kubectl) -> None:
    image = f"{octavo.access.registry}/octavo-nothing:0"
    with applied(namespace, service("pull", runtime={"image": image})):
        wait_for_condition(namespace, "pull", "Ready", "False", says="ImagePullBackOff", timeout_s=90)


@pytest.fixture
def claimed(cluster: Kubectl, namespace: Kubectl, own_cluster: None) -> Iterator[Kubectl]:
    """A namespace with the claim `weights`, of which one pod at a time may be promised the use."""
    namespace.apply(*claim(namespace.namespace or ""))
    yield namespace
    cluster.delete("persistentvolume", f"weights-{namespace.namespace}", wait=False)


def test_a_model_in_a_claim_is_served(octavo: Kubectl, claimed: Kubectl, images: Images) -> None:
    """A pod of the same image copies the model there, as a user's download job would."""
    claimed.apply(loader(images.runtime_demo))
    wait_for(lambda: (claimed.get("pod", "loader") or {})["status"].get("phase") == "Succeeded", 120, "the copy")
    with applied(claimed, service("stored", model={"source": "pvc://weights/small/model.gguf"})):
        wait_for_condition(claimed, "stored", "Ready", "True", timeout_s=READY_S)
        assert chat(claimed, "stored")
        claimed.patch(KIND, "stored", {"spec": {"replicas": 2}})
        wait_for_condition(claimed, "stored", "SpecValid", "False", says="ClaimNotShared: the claim weights")


def claim(namespace: str) -> list[Object]:
    """A volume in a folder of the node, bound to the claim `weights`."""
    size = {"storage": "1Gi"}
    volume = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"weights-{namespace}"},
        "spec": {
            "capacity": size,
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "persistentVolumeReclaimPolicy": "Retain",
            "hostPath": {"path": f"/var/lib/octavo-onenode/state/volumes/{namespace}", "type": "DirectoryOrCreate"},
            "claimRef": {"namespace": namespace, "name": "weights"},
        },
    }
    wanted = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "weights"},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": size}},
    }
    return [volume, wanted]


def loader(image: str) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "loader"},
        "spec": {
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "loader",
                    "image": image,
                    "command": [
                        "sh",
                        "-c",
                        "mkdir -p /weights/small && cp /models/smollm2.gguf /weights/small/model.gguf",
                    ],
                    # The folder of a hostPath volume belongs to root.
                    "securityContext": {"runAsUser": 0},
                    "volumeMounts": [{"name": "weights", "mountPath": "/weights"}],
                }
            ],
            "volumes": [{"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}}],
        },
    }
