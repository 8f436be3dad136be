"""The alerts of a service, each with what it means and what to do, over what its pods export. Pure.

`tests/contract` compares the series that the expressions name with those that the runtime has.
"""

import dataclasses

from octavo_operator import names
from octavo_operator.service import Key, Service
from octavo_operator.spec.autoscaling import Autoscaling, Metric


@dataclasses.dataclass(frozen=True)
class Alert:
    """`expression` is PromQL, `lasts` a Prometheus duration; `runbook` says in which order to look at what."""

    name: str
    expression: str
    lasts: str
    severity: str
    summary: str
    runbook: str


def alerts(service: Service) -> list[Alert]:
    """Of a service that shall have pods; there is nothing to say of one that is suspended or has none."""
    if service.suspend or (service.autoscaling is None and service.replicas == 0):
        return []
    of_autoscaling = [] if service.autoscaling is None else [_exhausted(service.key, service.autoscaling)]
    return [*_of_pods(service.key), *_of_requests(service.key), *of_autoscaling]


def pods_of(key: Key) -> str:
    """The label matchers of a service's series."""
    return f'namespace="{key.namespace}",{names.SERVICE_SERIES_LABEL}="{key.name}"'


def _of_pods(key: Key) -> list[Alert]:
    pods, about = pods_of(key), _about(key)
    return [
        Alert(
            "OctavoNoPodReady",
            f"absent(octavo_kv_block_utilization{{{pods}}})",
            "10m",
            "critical",
            f"No pod of {about} takes requests.",
            f"1. {_look(key)}: its message says what the pods wait for or died of. 2. Where it is Ready, Prometheus does not "
            f"scrape the pods: look for them among its targets, port {names.HEALTH_PORT}.",
        ),
        Alert(
            "OctavoPodHung",
            f'max by (namespace, pod) (octavo_phase{{{pods},phase="hung"}}) == 1',
            "1m",
            "critical",
            f"The engine of {{{{ $labels.pod }}}} of {about} makes no step.",
            "1. The kubelet restarts the container when its liveness probe has failed; if it does not, delete the pod. 2. Keep "
            "`kubectl logs --previous` of it: the last lines name the step. 3. On a GPU, look for Xid errors in the node's log.",
        ),
        Alert(
            "OctavoPodLoadsSlowly",
            f'max by (namespace, pod) (octavo_phase{{{pods},phase=~"loading|warming"}}) == 1',
            "30m",
            "warning",
            f"{{{{ $labels.pod }}}} of {about} has been loading for half an hour.",
            f"1. {_look(key)}: the pod's reason says how far it is. 2. A download that stands still ends the pod by itself after 5 "
            "minutes. 3. Keep weights between pods (spec.model.cache), or keep them in an image.",
        ),
        Alert(
            "OctavoEngineRestarted",
            f"sum by (namespace, pod) (increase(octavo_engine_restarts_total{{{pods}}}[15m])) > 0",
            "0m",
            "warning",
            f"The engine of {{{{ $labels.pod }}}} of {about} died and was started again.",
            "1. `kubectl logs` of the pod says why. 2. Where the kernel killed it for memory, raise spec.resources.memory or lower "
            "spec.runtime.kvCache.memory.",
        ),
    ]


def _of_requests(key: Key) -> list[Alert]:
    pods, about = pods_of(key), _about(key)
    return [
        Alert(
            "OctavoUnderPressure",
            f"avg(octavo_pressure_level{{{pods}}}) >= 4",
            "10m",
            "warning",
            f"The pods of {about} preempt requests for want of KV pages.",
            "1. More pods: raise spec.replicas, or spec.autoscaling.maxReplicas. 2. More pages in each: raise "
            "spec.runtime.kvCache.memory, or spread the model over more GPUs. 3. Shorter requests: lower spec.runtime.maxModelLen.",
        ),
        Alert(
            "OctavoRequestsRefused",
            f'sum(rate(octavo_requests_refused_total{{{pods},kind=~"queue_full|pressured|failed"}}[5m])) > 0.1',
            "5m",
            "critical",
            f"{about} refuses requests that it could serve with more room.",
            "1. More pods: raise spec.replicas, or spec.autoscaling.maxReplicas. 2. By kind: pressured and queue_full are want of "
            "room, failed is a broken engine, whose pod's log says more. 3. Clients get Retry-After: see that they heed it.",
        ),
        Alert(
            "OctavoFirstTokenSlow",
            f"histogram_quantile(0.95, sum by (le) (rate(vllm:time_to_first_token_seconds_bucket{{{pods}}}[10m]))) > 10",
            "10m",
            "warning",
            f"One in twenty requests to {about} waits more than 10 s for its first token.",
            "1. Requests wait for a place: see octavo_requests_waiting, and raise the number of pods. 2. Long prompts hold up "
            "others: raise spec.runtime.maxNumBatchedTokens. 3. Prompts with a common beginning should hit the prefix cache: see "
            "octavo_prefix_hits_tokens_total.",
        ),
    ]


def _exhausted(key: Key, autoscaling: Autoscaling) -> Alert:
    pods, most = pods_of(key), autoscaling.max_replicas
    over = " or ".join(f"avg({metric.series}{{{pods}}}) > {_target(metric)}" for metric in autoscaling.metrics)
    return Alert(
        "OctavoAutoscalerExhausted",
        f"({over}) and on () count(octavo_kv_block_utilization{{{pods}}}) >= {most}",
        "15m",
        "warning",
        f"{_about(key)} has its {most} pods, the most that its autoscaler may make, and needs more.",
        "1. Raise spec.autoscaling.maxReplicas where the cluster has room. 2. Else more work in each pod: raise "
        "spec.runtime.kvCache.memory, or use a smaller KV type.",
    )


def _target(metric: Metric) -> str:
    return f"{metric.target / 100 if metric.type == 'BlockUtilization' else metric.target:g}"


def _about(key: Key) -> str:
    return f"InferenceService {key}"


def _look(key: Key) -> str:
    return f"`kubectl --namespace {key.namespace} describe oisvc {key.name}`"
