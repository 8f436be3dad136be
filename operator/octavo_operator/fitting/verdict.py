"""`MemoryFits`: whether a service's model fits, with the arithmetic, as a condition and as `status.sizing`. Pure.

The settings are read from the command line and the memory limit of the pods that shall be made, so that whatever changes those
(extraArgs, podTemplate) counts.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from octavo_operator.conditions import Condition
from octavo_operator.fitting import gpu_memory
from octavo_operator.fitting.gpu_memory import GpuMemory
from octavo_operator.fitting.inspections import Insight
from octavo_operator.fitting.workload import limit_of, runtime_container
from octavo_operator.service import Service
from octavo_sizing.amounts import bytes_text, parse_bytes
from octavo_sizing.errors import ContextError, DegreeError, HeadWidthError, KvFormError, SizingError
from octavo_sizing.fit import Fit, fit
from octavo_sizing.flags import with_flags
from octavo_sizing.model import Model
from octavo_sizing.report import CPU_FIELDS, FIELDS, arithmetic, fields, verdict
from octavo_sizing.setup import Setup

CONDITION = "MemoryFits"
INSPECTING = "Inspecting"
# Predictions that are further off than this are told.
_TOLERANCE = 0.1


@dataclasses.dataclass(frozen=True)
class Verdict:
    """`fits` None: not known. `sizing` is the status's field, empty where nothing could be computed."""

    fits: bool | None
    reason: str
    message: str
    sizing: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def condition(self) -> Condition:
        return Condition.of(CONDITION, self.fits, self.reason, self.message)


def judge(service: Service, pod: Mapping[str, Any], found: Insight, gpu: GpuMemory | None, job: str) -> Verdict:
    """Of pods with the spec `pod`. `job`: what to delete for another try where the inspection failed."""
    if found.error:
        return Verdict(None, "InspectionFailed", f"{found.error}; delete the Job {job} to have it tried again")
    if found.inspection is None:
        return Verdict(None, INSPECTING, ": ".join(filter(None, ["the model is being inspected", found.waiting])))
    words = FIELDS if service.device == "gpu" else CPU_FIELDS
    try:
        setup = setup_of(service, pod)
        fits = [_fit(found.inspection.model, setup, memory) for memory in _memories(service, setup, gpu)]
    except DegreeError as error:
        return Verdict(False, "DegreeImpossible", str(error))
    except ContextError as error:
        return Verdict(False, "ContextTooLong", str(error))
    except KvFormError as error:
        return Verdict(False, "KvFormImpossible", str(error))
    except HeadWidthError as error:
        return Verdict(False, "HeadsTooWide", str(error))
    except SizingError as error:
        return Verdict(None, "NotSized", f"the arithmetic cannot be done: {error}")
    worst, best = fits[0], fits[-1]
    text = f"{verdict(best, words)}: {arithmetic(best)}"
    if best.fits and not worst.fits:
        least = bytes_text(worst.setup.memory_bytes or 0)
        narrow = f"not on GPUs of {least}, which eligible nodes have: narrow spec.gpu.nodeSelector; otherwise it {text}"
        return Verdict(True, "FitsSomeNodes", narrow, fields(best))
    return Verdict(best.fits, _reason(best), text, fields(worst))


def setup_of(service: Service, pod: Mapping[str, Any]) -> Setup:
    """Raises SizingError for values of the command line or the limit that cannot be read."""
    container = runtime_container(pod)
    limit = limit_of(pod) if service.device == "cpu" else None
    begin = Setup(
        device=service.device,
        memory_bytes=None if limit is None else parse_bytes(limit),
        tensor=service.parallelism.tensor,
        nodes=service.parallelism.nodes,
    )
    return with_flags(begin, container["args"])


def against(found: Verdict, reported: int | None) -> Verdict:
    """`found` beside the blocks that the service's ready pods report."""
    predicted = found.sizing.get("blocks")
    if reported is None or predicted is None:
        return found
    found = dataclasses.replace(found, sizing={**found.sizing, "reportedBlocks": reported})
    if predicted and abs(reported - predicted) <= _TOLERANCE * predicted:
        return found
    off = f"{reported / predicted - 1:+.0%}" if predicted else "none were"
    told = f"pods report {reported:,} KV blocks where {predicted:,} were predicted ({off}); it {found.message}"
    return dataclasses.replace(found, message=told)


def proven(found: Verdict) -> Verdict:
    """`found` where pods of the same template are ready: they show what arithmetic can only say."""
    if found.fits is not False:
        return found
    return dataclasses.replace(
        found, fits=True, reason="Proven", message=f"pods are ready, although it {found.message}"
    )


def _memories(service: Service, setup: Setup, gpu: GpuMemory | None) -> list[int | None]:
    """The amounts that may be met, the least first."""
    if service.device == "cpu":
        return [setup.memory_bytes]
    if service.gpu.memory is not None:
        gpu = gpu_memory.stated(parse_bytes(service.gpu.memory))
    return [None] if gpu is None else [*sorted({gpu.least_bytes, gpu.most_bytes})]


def _fit(model: Model, setup: Setup, memory_bytes: int | None) -> Fit:
    return fit(model, dataclasses.replace(setup, memory_bytes=memory_bytes), FIELDS.tensor, FIELDS.context)


def _reason(found: Fit) -> str:
    if found.fits is None:
        return "GpuMemoryUnknown"
    if not found.fits:
        return "DoesNotFit"
    if found.setup.memory_bytes is None:
        return "NoLimit"
    largest = found.largest_context_tokens or 0
    return "Fits" if largest >= found.context_tokens else "ContextLimited"
