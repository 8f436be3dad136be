"""What is kept of objects that watches show: of pods and children small values, of children also their newest version. No I/O."""

from collections.abc import Mapping
from typing import Any

from octavo_operator import kinds, mirror, names, observed
from octavo_operator.fitting import inspections
from octavo_operator.kinds import Kind
from octavo_operator.service import Key
from octavo_operator.sightings import Sightings

_KINDS = {(kind.api_version, kind.kind): kind for kind in kinds.WATCHED}

Body = Mapping[str, Any]


class Projections:
    """Pods that serve, children, and pods that inspect a model, by service. InferenceServices themselves are none of it."""

    def __init__(self, copies: mirror.Mirror) -> None:
        self._mirror = copies
        self.pods: Sightings[observed.PodView] = Sightings()
        self.children: Sightings[observed.ChildView] = Sightings()
        self.inspections: Sightings[inspections.InspectionView] = Sightings()

    def seen(self, live: Body) -> Key | None:
        """The service that has to be looked at since `live` is as it is; None where that tells nothing new of any."""
        kind, of = _KINDS[live["apiVersion"], live["kind"]], _service_of(live)
        if kind == kinds.INFERENCE_SERVICE:
            return None
        if kind == kinds.POD:
            return of if of is not None and self._pod_seen(of, live) else None
        return of if self._child_seen(kind, of, live) else None

    def gone(self, live: Body) -> Key | None:
        """The service that has to be looked at since `live` is no more."""
        metadata, kind = live["metadata"], _KINDS[live["apiVersion"], live["kind"]]
        if kind == kinds.INFERENCE_SERVICE:
            return None
        for shown in (self.pods, self.inspections, self.children):
            shown.drop(metadata["uid"])
        self._mirror.gone(kind, Key(metadata["namespace"], metadata["name"]))
        return _service_of(live)

    def _pod_seen(self, of: Key, live: Body) -> bool:
        uid = live["metadata"]["uid"]
        if names.SERVICE_LABEL in live["metadata"]["labels"]:
            return self.pods.put(of, uid, observed.pod_view(live))
        return self.inspections.put(of, uid, inspections.view(live))

    def _child_seen(self, kind: Kind, of: Key | None, live: Body) -> bool:
        uid, newer = live["metadata"]["uid"], self._mirror.heard(kind, live)
        if of is None:
            self.children.drop(uid)
            return False
        other = self.children.put(of, uid, observed.child_view(kind, live))
        return newer or other


def _service_of(live: Body) -> Key | None:
    labels = live["metadata"].get("labels", {})
    of = labels.get(names.SERVICE_LABEL, labels.get(names.INSPECTS_LABEL))
    return Key(live["metadata"]["namespace"], of) if of else None
