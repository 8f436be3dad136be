"""What an InferenceService waits for, as one line for people."""

from tests.cluster.kubectl import Object, condition


def what_it_waits_for(service: Object | None) -> str:
    """The operator's own words, which tell of the pods; before it has any, that it has none."""
    if service is None:
        return "the object to appear"
    ready = condition(service, "Ready")
    return str(ready.get("message") or ready.get("reason") or "the operator's first look at it")
