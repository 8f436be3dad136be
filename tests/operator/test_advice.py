"""What a change is said to do to pods that run."""

from typing import Any

import pytest

from octavo_operator.advice import Running, warnings
from tests.operator.samples import IMAGE, body

GPU = {"device": "gpu", "parallelism": {"tensor": 2}, "replicas": 4}


@pytest.mark.parametrize(
    ("old", "new", "running", "said"),
    [
        pytest.param(
            GPU,
            {**GPU, "runtime": {"maxModelLen": 4096}},
            Running(4, 85.0),
            ["restarts 4 pods, needs 8 GPUs, about 6 min"],
            id="pods with GPUs, one after the other",
        ),
        pytest.param(
            GPU,
            {**GPU, "runtime": {"maxModelLen": 4096}, "rollout": {"strategy": "Recreate"}},
            Running(4, 85.0),
            ["restarts 4 pods, needs 8 GPUs, about 2 min"],
            id="all at once",
        ),
        pytest.param(
            {}, {"runtime": {"blockSize": 16}}, Running(1, 3.0), ["restarts 1 pod, under 1 min"], id="a quick start"
        ),
        pytest.param(
            {}, {"runtime": {"blockSize": 16}}, Running(1), ["restarts 1 pod"], id="nobody knows how long it takes"
        ),
        pytest.param({}, {"runtime": {"blockSize": 16}}, Running(0), [], id="no pods that would restart"),
        pytest.param({}, {"replicas": 3}, Running(1, 3.0), [], id="more pods"),
        pytest.param({"replicas": 4}, {"replicas": 1}, Running(4), ["stops 3 of 4 pods"], id="fewer pods"),
        pytest.param(
            {"replicas": 4},
            {"replicas": 2, "runtime": {"blockSize": 16}},
            Running(4),
            ["stops 2 of 4 pods", "restarts 2 pods"],
            id="fewer and other pods",
        ),
        pytest.param(
            {"replicas": 2},
            {"replicas": 2, "suspend": True},
            Running(2),
            ["stops 2 pods: nothing answers then"],
            id="suspended",
        ),
        pytest.param(
            {"suspend": True}, {"suspend": True, "runtime": {"blockSize": 16}}, Running(0), [], id="asleep and changed"
        ),
        pytest.param({}, {"rollout": {"strategy": "Surge"}}, Running(1), [], id="how pods are replaced"),
        pytest.param({"replicas": 4}, {"autoscaling": {"maxReplicas": 8}}, Running(4), [], id="scaled from now on"),
        pytest.param(
            {"autoscaling": {"maxReplicas": 8}}, {"replicas": 1}, Running(4), ["stops 3 of 4 pods"], id="scaled no more"
        ),
        pytest.param(
            {}, {"rollout": {"drainTimeoutSeconds": 9}}, Running(1), ["restarts 1 pod"], id="a drain that pods know of"
        ),
    ],
)
def test_says_what_happens_to_the_pods(
    old: dict[str, Any], new: dict[str, Any], running: Running, said: list[str]
) -> None:
    assert warnings(body(**old), body(**new), running, IMAGE) == said


def test_says_that_a_spec_cannot_be_served() -> None:
    [said] = warnings(body(runtime={"image": "a:1"}), body(), Running(1), None)
    assert said.startswith("this spec cannot be served: no runtime image is known: set spec.runtime.image")


def test_a_spec_that_is_mended_needs_no_warning() -> None:
    assert warnings(body(), body(runtime={"image": "a:1"}), Running(1), None) == []


def test_sentences_are_short_enough_for_every_client() -> None:
    many = {"device": "gpu", "parallelism": {"tensor": 64}, "replicas": 10000}
    for sentence in warnings(body(**many), body(**many, runtime={"blockSize": 16}), Running(10000, 3600.0), IMAGE):
        assert len(sentence) <= 120
