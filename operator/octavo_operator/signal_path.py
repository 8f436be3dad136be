"""Goes along the way from a service's pods to its autoscaler, for `autoscaling.condition`: reads metrics, writes nothing.

Only where the autoscaler says that it lacks a metric: then the metrics API is asked what it has, and a few pods what they export.
"""

import asyncio
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

import aiohttp
from yarl import URL

from octavo_operator import kinds, kube, names
from octavo_operator.autoscaling import METRICS_APIS, AutoscalerView, Links, Signal, autoscaler_view
from octavo_operator.desired import labels
from octavo_operator.kinds import Ref
from octavo_operator.observed import Observed, PodView
from octavo_operator.service import Key, Service
from octavo_operator.spec.autoscaling import SERIES, Autoscaling

logger = logging.getLogger(__name__)

# All pods of a service are of the same runtime but for a moment, and what is wrong with one is wrong with the next.
MOST_PODS = 4
TIMEOUT_S = 5.0
LIMIT_BYTES = 1024 * 1024


class SignalPath:
    """`prometheus_url` is where KEDA asks."""

    def __init__(self, api: kube.Kube, prometheus_url: str | None) -> None:
        self._api = api
        self._prometheus_url = prometheus_url

    async def look(self, service: Service, observed: Observed) -> Signal | None:
        """What there is of the way now; None where nothing is scaled. Raises KubeError."""
        autoscaling = service.autoscaling
        if autoscaling is None or service.suspend:
            return None
        autoscaler = await self._autoscaler(service, autoscaling, observed)
        links = Links()
        if autoscaler is None or not autoscaler.has_all(autoscaling):
            listed = await self._resources(METRICS_APIS[autoscaling.provider])
            links = Links(await exported(observed.pods), listed)
        return Signal(autoscaler, links, kinds.SCALED_OBJECT in observed.served, self._prometheus_url)

    async def _autoscaler(
        self, service: Service, autoscaling: Autoscaling, observed: Observed
    ) -> AutoscalerView | None:
        kind = kinds.HORIZONTAL_AUTOSCALER if autoscaling.provider == "hpa" else kinds.SCALED_OBJECT
        ours = observed.children.get(Ref(kind, labels.child_name(service.key, "autoscaler")))
        if ours is None or autoscaling.provider == "hpa":
            return autoscaler_view(ours) if ours is not None else None
        made_by_keda = ours.get("status", {}).get("hpaName")
        if made_by_keda is None:
            return AutoscalerView(active=None, trouble=_trouble(ours))
        found = await self._api.get(kinds.HORIZONTAL_AUTOSCALER, Key(service.key.namespace, made_by_keda))
        return autoscaler_view(found) if found is not None else None

    async def _resources(self, api_version: str) -> frozenset[str] | None:
        """What a metrics API lists; None where it is not there, or does not answer for whom it is served by."""
        try:
            return await self._api.resources(api_version)
        except kube.UnavailableError as error:
            logger.debug("%s: %s", api_version, error)
            return None


async def exported(pods: Iterable[PodView], port: int = names.HEALTH_PORT) -> dict[str, frozenset[str] | None]:
    """Which of the series that services are scaled by the pods export, by the pod's name; None where one does not answer."""
    asked = [pod for pod in pods if pod.ready and pod.serving and pod.ip][:MOST_PODS]
    if not asked:
        return {}
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    # Pods are asked, not a proxy on their behalf.
    async with aiohttp.ClientSession(timeout=timeout, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()) as session:
        found = await asyncio.gather(*(_series(session, pod, port) for pod in asked))
    return {pod.name: series for pod, series in zip(asked, found, strict=True)}


async def _series(session: aiohttp.ClientSession, pod: PodView, port: int) -> frozenset[str] | None:
    try:
        url = URL.build(scheme="http", host=pod.ip, port=port, path="/metrics")
        async with session.get(url, allow_redirects=False) as response:
            if response.status != 200:
                return None
            text = await _beginning(response.content)
    except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
        logger.debug("%s at %s: %s %s", pod.name, pod.ip, type(error).__name__, error)
        return None
    return frozenset(name for name in SERIES.values() if re.search(rf"^{name}[{{ ]", text, re.MULTILINE))


async def _beginning(stream: aiohttp.StreamReader) -> str:
    body = bytearray()
    async for piece in stream.iter_chunked(16384):
        body += piece
        if len(body) >= LIMIT_BYTES:
            break
    return body.decode(errors="replace")


def _trouble(scaled_object: Mapping[str, Any]) -> str:
    """What KEDA says of a ScaledObject that it does not scale."""
    for entry in scaled_object.get("status", {}).get("conditions", ()):
        if entry["type"] == "Ready" and entry["status"] == "False":
            return f"{entry.get('reason')}: {entry.get('message')}"
    return ""
