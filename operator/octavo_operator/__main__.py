"""`python -m octavo_operator`: connects, watches, works the queue, until SIGTERM or SIGINT."""

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import AsyncIterator, Sequence
from functools import partial

import kopf

from octavo_operator import (
    access,
    discovery,
    endpoints,
    handlers,
    kinds,
    kube,
    leadership,
    lease,
    log_noise,
    metrics,
    mirror,
    options,
    queue,
    reconcile,
    rights,
    service,
    watches,
    webhook,
    workers,
)
from octavo_operator.state import polling, readings

logger = logging.getLogger("octavo_operator")

CRD_POLL_S = 2.0
STOP_S = 10.0
# What happens to a service within it is one reconcile; nobody waits for half a second.
REST_S = 0.5


async def run(settings: options.Options) -> None:
    """Until SIGTERM or SIGINT. Raises LostError where another operator may lead instead of this one, AccessError where the API
    server has no address, RightsError where this operator may not watch what it cannot do without."""
    asyncio.get_running_loop().set_exception_handler(log_noise.leave_out)
    async with contextlib.AsyncExitStack() as stack:
        leader = leadership.Leadership(await _elector(settings, stack))
        api = await stack.enter_async_context(kube.connection(settings.access, leader.leads))
        logger.info(
            "watching %s; runtime image %s",
            ", ".join(settings.namespaces) or "the whole cluster",
            settings.runtime_image or "only from the services",
        )
        keys: queue.KeyQueue[service.Key] = queue.KeyQueue(rest_s=REST_S)
        watched = watches.Watches(patience_s=settings.watch_timeout_s)
        copies = mirror.Mirror(api)
        watch = handlers.Watch(keys, settings.access, watched, copies, settings.watch_timeout_s)
        counters = metrics.Metrics(api, keys, leader.leads, watched)
        told = readings.Readings(time.monotonic)
        reconciler = reconcile.Reconciler(api, copies, watch.watched, settings.installation, told)
        crew = workers.Workers(keys, reconciler, counters)
        found = discovery.Discovery(api, rights.Rights(api, settings.namespaces), watched, watch.serve)
        led = [*[crew.work] * settings.workers, polling.Polling(watch.all_pods, told, keys.add).run]
        vitals = endpoints.Vitals(
            crew.longest_s, lambda: time.monotonic() - api.answered_at, watched.oldest, settings.watch_timeout_s
        )
        everywhere = [
            partial(_resync, watch, settings.resync_s),
            partial(_keep_asking, api),
            partial(found.run, settings.discovery_s, leader.ended),
        ]
        await stack.enter_async_context(
            endpoints.served(settings.health_port, settings.metrics_port, vitals, counters.registry)
        )
        await stack.enter_async_context(webhook.served(settings.webhook, watch.running, settings.runtime_image))
        await _served(api)
        await found.once()
        async with _background(everywhere, led, leader, crew):
            await kopf.operator(
                registry=watch.registry,
                settings=watch.settings,
                insights=watch.insights,
                indexers=watch.indexers,
                clusterwide=not settings.namespaces,
                namespaces=settings.namespaces,
                stop_flag=leader.ended,
            )


async def _elector(settings: options.Options, stack: contextlib.AsyncExitStack) -> lease.Elector | None:
    """With a connection of its own, so that a renewal waits for nothing else."""
    if settings.lease is None:
        return None
    api = await stack.enter_async_context(kube.connection(settings.access))
    return lease.Elector(api, settings.lease, leadership.identity())


@contextlib.asynccontextmanager
async def _background(
    everywhere: Sequence[leadership.Work],
    led: Sequence[leadership.Work],
    leader: leadership.Leadership,
    crew: workers.Workers,
) -> AsyncIterator[None]:
    """Runs `everywhere` beside the block, and `led` while this process leads; at the end, reconciles get to finish their write."""
    # All tasks begin before kopf: it cancels, when it stops, every task that was born after it.
    leading = [asyncio.create_task(leader.once_elected(work)) for work in led]
    election = asyncio.create_task(leader.run(leading))
    tasks = [*leading, *(asyncio.ensure_future(work()) for work in everywhere)]
    try:
        yield
    finally:
        crew.stop()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(crew.idle(), STOP_S)
        for task in (*tasks, election):
            task.cancel()
        ended = await asyncio.gather(*tasks, election, return_exceptions=True)
        await leader.release()
        for error in ended:
            if isinstance(error, lease.LostError | rights.RightsError):
                raise error


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


async def _keep_asking(api: kube.Kube) -> None:
    """A small read now and then, so that an idle operator notices a dead connection before people do."""
    while True:
        await asyncio.sleep(endpoints.SILENT_API_UNREADY_S / 3)
        with contextlib.suppress(kube.KubeError):
            await api.serves(kinds.INFERENCE_SERVICE)


def main(arguments: Sequence[str] | None = None) -> int:
    settings = options.parse(arguments)
    logging.basicConfig(
        level=settings.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s", force=True
    )
    # At `info` kopf tells about each of its tasks and handlers, and it warns of optional kinds that are not served.
    logging.getLogger("kopf").setLevel(logging.DEBUG if settings.log_level == "debug" else logging.WARNING)
    logging.getLogger("kopf._core.reactor.observation").setLevel(logging.ERROR)
    try:
        asyncio.run(run(settings))
    except lease.LostError as error:
        logger.error("%s: this operator ends, and begins anew as one that waits", error)
        return 1
    except (access.AccessError, rights.RightsError) as error:
        logger.error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
