"""`python -m octavo_operator`: connects, watches, works the queue, until SIGTERM or SIGINT."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Sequence

import kopf

from octavo_operator import endpoints, handlers, kinds, kube, metrics, options, queue, reconcile, service, workers

logger = logging.getLogger("octavo_operator")

CRD_POLL_S = 2.0
DISCOVERY_S = 60.0
STOP_S = 10.0


async def run(settings: options.Options) -> None:
    async with kube.connection(settings.access) as api:
        keys: queue.KeyQueue[service.Key] = queue.KeyQueue()
        watch = handlers.Watch(keys, settings.access)
        counters = metrics.Metrics(api, keys)
        crew = workers.Workers(keys, reconcile.Reconciler(api, watch.watched, settings.installation), counters)
        vitals = endpoints.Vitals(crew.longest_s, lambda: time.monotonic() - api.answered_at)
        loops = [
            _resync(watch, settings.resync_s),
            _keep_asking(api),
            _discover(api, watch),
            *(crew.work() for _ in range(settings.workers)),
        ]
        async with endpoints.served(settings.health_port, settings.metrics_port, vitals, counters.registry):
            await _served(api)
            await _discover_once(api, watch)
            async with _background(loops, crew):
                await kopf.operator(
                    registry=watch.registry,
                    settings=watch.settings,
                    insights=watch.insights,
                    clusterwide=not settings.namespaces,
                    namespaces=settings.namespaces,
                )


@contextlib.asynccontextmanager
async def _background(loops: Sequence[Coroutine[None, None, None]], crew: workers.Workers) -> AsyncIterator[None]:
    """Runs `loops` beside the block; at its end, reconciles that run get a moment to finish their write."""
    # Started before kopf: it cancels, when it stops, every task that was born after it.
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        crew.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(crew.idle(), STOP_S)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _served(api: kube.Kube) -> None:
    """Waits until the API server knows our kind: kopf looks for it only once."""
    told = False
    while True:
        with contextlib.suppress(kube.UnavailableError):
            if await api.serves(kinds.INFERENCE_SERVICE):
                return
        if not told:
            logger.warning("waiting for the API server to serve inferenceservices.serving.octavo.dev: install its CRD")
            told = True
        await asyncio.sleep(CRD_POLL_S)


async def _resync(watch: handlers.Watch, interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        watch.resync()


async def _discover(api: kube.Kube, watch: handlers.Watch) -> None:
    """Optional kinds come and go with others' CRDs."""
    while True:
        await asyncio.sleep(DISCOVERY_S)
        await _discover_once(api, watch)


async def _discover_once(api: kube.Kube, watch: handlers.Watch) -> None:
    while True:
        with contextlib.suppress(kube.KubeError):
            return await watch.serve(await api.served(kinds.OPTIONAL))
        await asyncio.sleep(CRD_POLL_S)


async def _keep_asking(api: kube.Kube) -> None:
    """A small read now and then, so that an idle operator notices a dead connection before people do."""
    while True:
        await asyncio.sleep(endpoints.SILENT_API_UNREADY_S / 3)
        with contextlib.suppress(kube.KubeError):
            await api.serves(kinds.INFERENCE_SERVICE)


def main(arguments: Sequence[str] | None = None) -> None:
    settings = options.parse(arguments)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    # At `info` kopf tells about each of its tasks and handlers, and it warns of optional kinds that are not served.
    logging.getLogger("kopf").setLevel(logging.DEBUG if settings.log_level == "debug" else logging.WARNING)
    logging.getLogger("kopf._core.reactor.observation").setLevel(logging.ERROR)
    logger.info(
        "watching %s; runtime image %s",
        ", ".join(settings.namespaces) or "the whole cluster",
        settings.runtime_image or "only from the services",
    )
    asyncio.run(run(settings))


if __name__ == "__main__":
    main()
