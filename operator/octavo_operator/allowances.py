"""What only the administrator may let the services of a cluster do: reach into nodes, or be more than a plain pod. Pure.

Whoever may create an InferenceService need not be allowed to create pods, so the operator must not make pods for him that he could
not have made. Nothing is allowed by default; the operator's options say more.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from octavo_operator.installation import Installation
from octavo_operator.service import Service
from octavo_operator.spec.errors import SpecError
from octavo_operator.unchecked import mapping, mappings

HOST_NAMESPACES = "hostNamespaces"
PRIVILEGED = "privileged"
SERVICE_ACCOUNT = "serviceAccountName"
POWERS = (HOST_NAMESPACES, PRIVILEGED, SERVICE_ACCOUNT)
# The older spelling of appArmorProfile, which the API server still takes; a container's name follows.
_APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"


def check(service: Service, installation: Installation) -> None:
    """Raises SpecError where the spec wants what the administrator has not allowed."""
    for field, path in _host_paths(service):
        if not _below(path, installation.host_paths):
            allowed = ", ".join(installation.host_paths) or "none"
            raise SpecError(
                "HostPathNotAllowed",
                f"{field} is {path}, and pods may mount folders of their nodes only below those that the chart's "
                f"allow.hostPaths (the operator's --allow-host-path) names: {allowed}; choose another, or ask the administrator",
            )
    template = service.pod_template
    for power, field in (*_powers(template.spec), *_annotated(template.annotations)):
        if power not in installation.powers:
            raise SpecError(
                "NotAllowed",
                f"{field} is not allowed here: remove it, or ask the administrator to add {power} to the "
                f"chart's allow.inPodTemplate (the operator's --allow-in-pod-template={power})",
            )


def _host_paths(service: Service) -> Iterator[tuple[str, str]]:
    if service.model.cache is not None and service.model.cache.host_path is not None:
        yield "spec.model.cache.hostPath.path", service.model.cache.host_path
    for volume in mappings(service.pod_template.spec.get("volumes")):
        if "hostPath" in volume:
            path = volume["hostPath"].get("path", "") if isinstance(volume["hostPath"], Mapping) else ""
            yield f"the hostPath of the volume {volume.get('name')} of spec.podTemplate", str(path)


def _below(path: str, folders: Iterable[str]) -> bool:
    parts = path.split("/")
    if ".." in parts or not path.startswith("/"):
        return False
    clean = [part for part in parts if part not in ("", ".")]
    return any(clean[: len(allowed)] == allowed for allowed in (_parts(folder) for folder in folders))


def _parts(folder: str) -> list[str]:
    return [part for part in folder.split("/") if part not in ("", ".")]


def _powers(pod: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each power that the pod would have, and the field that gives it."""
    where = "spec.podTemplate.spec"
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield HOST_NAMESPACES, f"{where}.{field}"
    for field in ("serviceAccountName", "serviceAccount", "automountServiceAccountToken"):
        if pod.get(field):
            yield SERVICE_ACCOUNT, f"{where}.{field}"
    for volume in mappings(pod.get("volumes")):
        if any("serviceAccountToken" in source for source in mappings(mapping(volume.get("projected")).get("sources"))):
            yield SERVICE_ACCOUNT, f"a service account token in the volume {volume.get('name')} of {where}"
    yield from _rights(mapping(pod.get("securityContext")), f"{where}.securityContext")
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        for container in mappings(pod.get(kind)):
            at = f"{where}.{kind}[name={container.get('name')}]"
            yield from _rights(mapping(container.get("securityContext")), f"{at}.securityContext")
            if any(port.get("hostPort") for port in mappings(container.get("ports"))):
                yield HOST_NAMESPACES, f"hostPort in {at}"


def _annotated(annotations: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in annotations.items():
        if name.startswith(_APPARMOR_ANNOTATION) and value == "unconfined":
            yield PRIVILEGED, f"spec.podTemplate.annotations[{name}]"


def _rights(context: Mapping[str, Any], where: str) -> Iterator[tuple[str, str]]:
    """Of a securityContext: what a pod of the strictest kind may not have."""
    wrong = {
        "privileged": bool(context.get("privileged")),
        "allowPrivilegeEscalation": bool(context.get("allowPrivilegeEscalation")),
        "capabilities.add": bool(mapping(context.get("capabilities")).get("add")),
        "runAsUser": context.get("runAsUser") == 0,
        "runAsNonRoot": context.get("runAsNonRoot") is False,
        "procMount": context.get("procMount", "Default") != "Default",
        "seccompProfile": mapping(context.get("seccompProfile")).get("type") == "Unconfined",
        "appArmorProfile": mapping(context.get("appArmorProfile")).get("type") == "Unconfined",
        "windowsOptions.hostProcess": bool(mapping(context.get("windowsOptions")).get("hostProcess")),
        "seLinuxOptions": bool(context.get("seLinuxOptions")),
        "sysctls": bool(context.get("sysctls")),
    }
    yield from ((PRIVILEGED, f"{where}.{field}") for field, found in wrong.items() if found)
