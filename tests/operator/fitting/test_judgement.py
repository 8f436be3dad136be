"""Which pods wait for a verdict, for how long, and which are made whatever it is."""

import dataclasses
import datetime
from typing import Any

import pytest

from octavo_operator import kinds
from octavo_operator.conditions import Withheld
from octavo_operator.desired import leaderworkerset, pod
from octavo_operator.desired.children import children
from octavo_operator.fitting import judgement
from octavo_operator.fitting.findings import ASKS_S
from octavo_operator.fitting.inspections import Insight
from octavo_operator.fitting.judgement import PATIENCE_S, Evidence, Judgement, kept, waited_s
from octavo_operator.fitting.verdict import Verdict
from octavo_operator.fitting.workload import limit_of
from octavo_operator.kinds import Kind
from octavo_operator.observed import DeploymentView, Observed, PodView
from octavo_operator.plan import plan
from octavo_operator.service import Service
from octavo_sizing.inspection import Inspection
from tests.operator.fitting.samples import LARGE, inspected, key_of, status_with
from tests.operator.samples import parsed

SMALL = inspected()
TOO_SMALL = {"resources": {"memory": "1Gi"}}
SERVED: frozenset[Kind] = frozenset(kinds.OPTIONAL)


def unknown(service: Service, **more: Any) -> Evidence:
    return Evidence(Insight(key_of(service)), **more)


def known(service: Service, found: Inspection = SMALL, **more: Any) -> Evidence:
    return Evidence(Insight(key_of(service), found), **more)


def judge(service: Service, evidence: Evidence) -> Judgement:
    return judgement.judge(service, judgement.question(service), evidence)


def live(service: Service) -> dict[str, Any]:
    """The workload that makes the service's pods, as far as it matters."""
    if service.workload_kind == kinds.DEPLOYMENT:
        template = pod.template(service)
        limit: dict[str, Any] = {"f:resources": {"f:limits": {"f:memory": {}}}} if limit_of(template["spec"]) else {}
        owned = {"f:spec": {"f:template": {"f:spec": {"f:containers": {'k:{"name":"runtime"}': limit}}}}}
        applied = [{"manager": "octavo-operator", "operation": "Apply", "fieldsV1": owned}]
        metadata = {"managedFields": applied}
        return {"kind": "Deployment", "metadata": metadata, "spec": {"template": template}, "status": {"replicas": 1}}
    return {
        "kind": "LeaderWorkerSet",
        "metadata": {},
        "spec": {"leaderWorkerTemplate": leaderworkerset.templates(pod.template(service))},
        "status": {"replicas": 1},
    }


def at_zero(service: Service) -> dict[str, Any]:
    """The same without pods, as a suspended service has it."""
    return {**live(service), "status": {}}


def said(judged: Judgement) -> Verdict:
    assert judged.verdict is not None
    return judged.verdict


def outcome(judged: Judgement, service: Service) -> tuple[bool, bool]:
    """Whether the workload is held back, and whether a Job is made."""
    step = plan(judged.service, None)
    found = judged.children(children(judged.service, step, SERVED), step)
    [workload] = [child for child in found if child.is_workload]
    assert not any(child.held for child in found if not child.is_workload)
    return workload.held, any(child.kind == kinds.JOB for child in found)


@pytest.mark.parametrize("nodes", [1, 2], ids=["Deployment", "LeaderWorkerSet"])
def test_first_pods_wait_for_the_inspection(nodes: int) -> None:
    service = parsed(parallelism={"tensor": 2, "nodes": nodes}, device="gpu")
    judged = judge(service, unknown(service))
    assert outcome(judged, service) == (True, True)
    step = plan(service, None)
    obstacle = judged.obstacle(step)
    assert obstacle is not None
    assert (obstacle.done, obstacle.reason) == (False, "Inspecting")
    withheld = judged.withheld(step)
    assert withheld is not None
    assert (withheld.reason, withheld.message, withheld.for_good) == ("Inspecting", obstacle.message, False)
    assert judged.problem(step) is None
    assert judged.look_again_s(step) == PATIENCE_S


def test_no_pods_wait_longer_than_two_minutes() -> None:
    service = parsed()
    judged = judge(service, unknown(service, waited_s=PATIENCE_S))
    assert outcome(judged, service) == (False, True)
    assert (said(judged).reason, judged.look_again_s(plan(service, None))) == ("Inspecting", None)


def test_where_another_service_asks_no_second_job_does_and_nobody_misses_the_answer() -> None:
    service = parsed()
    judged = judge(service, unknown(service, asks=False))
    assert outcome(judged, service) == (True, False)
    assert judged.look_again_s(plan(service, None)) == ASKS_S


def test_pods_that_fit_are_made_and_the_job_is_no_longer_wanted() -> None:
    service = parsed()
    judged = judge(service, known(service))
    assert outcome(judged, service) == (False, False)
    assert judged.obstacle(plan(service, None)) is None
    assert judged.fields["inspection"] == {"key": key_of(service), **SMALL.to_fields()}
    assert judged.fields["sizing"]["blocks"] == 769  # of 1,728 MiB


def test_a_failed_inspection_holds_nobody_and_its_job_stays() -> None:
    service = parsed()
    failed = Insight(key_of(service), error="exit code 1: no such file")
    judged = judge(service, Evidence(failed))
    assert outcome(judged, service) == (False, True)
    assert said(judged).fits is None
    assert f"delete the Job chat-inspect-{key_of(service)}" in said(judged).message
    assert judged.fields == {"inspection": {"key": key_of(service), "error": "exit code 1: no such file"}}


def test_pods_that_do_not_fit_are_not_made() -> None:
    service = parsed(**TOO_SMALL)
    judged = judge(service, known(service, LARGE))
    assert outcome(judged, service) == (True, False)
    step = plan(service, None)
    problem = judged.problem(step)
    assert problem is not None
    assert (problem.reason, problem.spec_valid) == ("DoesNotFit", True)
    assert judged.withheld(step) == Withheld("DoesNotFit", problem.message)
    assert judged.look_again_s(step) is None


@pytest.mark.parametrize("spec", [{"suspend": True}, {"replicas": 0}], ids=["suspended", "no replicas"])
def test_where_no_pods_are_wanted_none_wait(spec: dict[str, Any]) -> None:
    service = parsed(**TOO_SMALL, **spec)
    for evidence in (unknown(service), known(service, LARGE)):
        judged = judge(service, evidence)
        assert not outcome(judged, service)[0]
        assert judged.problem(plan(service, None)) is None


@pytest.mark.parametrize("nodes", [1, 2], ids=["Deployment", "LeaderWorkerSet"])
def test_pods_that_are_there_are_left_alone_whatever_is_known(nodes: int) -> None:
    """A workload with the same template may be scaled, although nothing is known any more."""
    service = parsed(parallelism={"tensor": 2, "nodes": nodes}, device="gpu")
    judged = judge(service, unknown(service, workload=live(service), ready=1))
    assert outcome(judged, service) == (False, True)


def test_ready_pods_prove_what_arithmetic_denies() -> None:
    service = parsed(**TOO_SMALL)
    crashing = judge(service, known(service, LARGE, workload=live(service)))
    assert (said(crashing).fits, outcome(crashing, service)[0]) == (False, False)
    proven = judge(service, known(service, LARGE, workload=live(service), ready=1))
    assert (said(proven).fits, said(proven).reason) == (True, "Proven")


def test_a_change_waits_while_the_pods_before_it_serve() -> None:
    before, after = parsed(), parsed(model={"source": "file:///models/another"})
    judged = judge(after, unknown(after, workload=live(before), ready=1))
    assert outcome(judged, after) == (True, True)
    assert said(judged).reason == "Inspecting"


HUB = {"model": {"source": "hf://org/model@main"}}
COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_all_pods_get_the_revision_that_was_inspected() -> None:
    service = parsed(**HUB)
    judged = judge(service, known(service, inspected(revision=COMMIT)))
    assert judged.service.model.source.hub == f"hf://org/model@{COMMIT}"
    args = pod.template(judged.service)["spec"]["containers"][0]["args"]
    assert args[:2] == ["serve", f"hf://org/model@{COMMIT}"]
    again = judge(service, known(service, inspected(revision=COMMIT), workload=live(judged.service), ready=1))
    assert (again.service, again.changes) == (judged.service, False)


def test_pods_that_run_without_a_revision_are_not_restarted_for_one() -> None:
    service = parsed(**HUB)
    judged = judge(service, known(service, inspected(revision=COMMIT), workload=live(service), ready=1))
    assert (judged.service, judged.changes) == (service, False)


def memory_of(judged: Judgement) -> str | None:
    return limit_of(pod.template(judged.service)["spec"])


def test_cpu_pods_that_nobody_gave_memory_get_what_they_need() -> None:
    service = parsed()
    judged = judge(service, known(service))
    assert memory_of(judged) == "1728Mi"
    assert said(judged).reason == "Fits"
    assert "limit 1.69 GiB" in said(judged).message
    assert memory_of(judge(service, unknown(service))) is None, "not before it is known"
    assert memory_of(judge(parsed(resources={"memory": "2Gi"}), known(service))) == "2Gi"


def test_pods_keep_the_memory_that_they_have() -> None:
    """Another version of the arithmetic, or none when they were made, is no reason to restart them."""
    service = parsed()
    bare = judge(service, known(service, workload=live(service), ready=1))
    assert (memory_of(bare), bare.changes) == (None, False)
    earlier = parsed(resources={"memory": "1600Mi"})
    kept_as_is = judge(service, known(service, workload=live(earlier), ready=1))
    assert (memory_of(kept_as_is), kept_as_is.changes) == ("1600Mi", False)
    changed = judge(service, known(service, workload=live(parsed(runtime={"maxNumSeqs": 4}))))
    assert (memory_of(changed), changed.changes) == ("1728Mi", True)


def test_a_service_that_is_resumed_is_judged_like_a_new_one() -> None:
    """Its workload was written at zero, perhaps before anything was known."""
    service = parsed(**HUB)
    judged = judge(service, known(service, inspected(revision=COMMIT), workload=at_zero(service)))
    assert judged.service.model.source.hub == f"hf://org/model@{COMMIT}"
    assert memory_of(judged) is not None
    too_small = parsed(**TOO_SMALL)
    denied = judge(too_small, known(too_small, LARGE, workload=at_zero(too_small)))
    assert outcome(denied, too_small)[0]


def test_gpu_pods_get_no_limit_that_nobody_measured() -> None:
    service = parsed(device="gpu")
    assert memory_of(judge(service, known(service))) is None


def test_what_is_inspected_is_a_matter_of_source_and_image_alone() -> None:
    same = [
        parsed(),
        parsed(replicas=3, runtime={"maxModelLen": 512}, resources={"memory": "2Gi"}, parallelism={"tensor": 3}),
    ]
    others = [parsed(model={"source": "file:///models/another"}), parsed(runtime={"image": "another:1"})]
    assert len({key_of(service) for service in same}) == 1
    assert len({key_of(service) for service in same + others}) == 3


def test_an_operator_that_does_not_inspect_says_nothing_of_memory() -> None:
    service = parsed()
    judged = Judgement(service)
    assert outcome(judged, service) == (False, False)
    step = plan(service, None)
    assert (judged.conditions, judged.fields) == ((), {})
    assert (judged.obstacle(step), judged.withheld(step), judged.problem(step)) == (None, None, None)


def test_reported_blocks_count_once_all_pods_are_of_the_spec() -> None:
    service = parsed()
    judged = judge(service, known(service, workload=live(service), ready=1))
    pods = tuple(
        PodView(name, ready=ready, ending=False, reason="", blocks_total=blocks)
        for name, ready, blocks in (("a", True, 3000), ("b", True, 2900), ("c", False, 7), ("d", True, None))
    )
    seen = Observed(DeploymentView(settled=True, replicas=4, updated=4, ready=3), pods)
    assert judged.beside(seen).fields["sizing"]["reportedBlocks"] == 2900
    rolling = dataclasses.replace(seen, deployment=DeploymentView(settled=True, replicas=4, updated=2, ready=3))
    assert "reportedBlocks" not in judged.beside(rolling).fields["sizing"]


@pytest.mark.parametrize(
    ("reason", "waited"),
    [pytest.param("Inspecting", 90.0, id="inspecting"), pytest.param("InspectionFailed", 0.0, id="another reason")],
)
def test_waiting_is_counted_from_the_condition(reason: str, waited: float) -> None:
    now = datetime.datetime(2026, 1, 1, 0, 1, 30, tzinfo=datetime.UTC)
    condition = {"type": "MemoryFits", "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
    assert waited_s({"conditions": [{"type": "Ready", "reason": "Inspecting"}, condition]}, now) == waited
    assert waited_s({}, now) == 0.0


def test_the_inspection_stays_in_a_status_that_says_nothing_else() -> None:
    service = parsed()
    status = {**status_with(service, SMALL), "sizing": {"blocks": 1}}
    assert kept(status) == status_with(service, SMALL)
    assert kept({}) == {}
