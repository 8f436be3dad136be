"""What works the queue, and the outermost loop: a failure of one service is logged, counted and tried again."""

import asyncio
import logging
import time

from octavo_operator import kube, metrics, queue, reconcile, service, upkeep

logger = logging.getLogger(__name__)

RECONCILE_LIMIT_S = 120.0


class Workers:
    """Loops over one queue; start `work` as many times as services may be reconciled at once."""

    def __init__(
        self, keys: queue.KeyQueue[service.Key], reconciler: reconcile.Reconciler, counters: metrics.Metrics
    ) -> None:
        self._keys = keys
        self._reconciler = reconciler
        self._counters = counters
        self._started: dict[service.Key, float] = {}
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()

    def longest_s(self) -> float:
        """Seconds that the longest running reconcile has taken so far; 0 when none runs."""
        now = time.monotonic()
        return now - min(self._started.values(), default=now)

    def stop(self) -> None:
        """No key is taken up any more; what runs may end."""
        self._stopping = True

    async def idle(self) -> None:
        """Returns when no reconcile runs."""
        await self._idle.wait()

    async def work(self) -> None:
        """Takes keys until stopped or cancelled."""
        while not self._stopping:
            key = await self._keys.take()
            self._started[key] = time.monotonic()
            self._idle.clear()
            try:
                with self._counters.seconds.time():
                    outcome = await self._one(key)
                self._counters.reconciles.labels(outcome).inc()
            finally:  # also where it is cancelled, since another operator leads now
                del self._started[key]
                if not self._started:
                    self._idle.set()

    async def _one(self, key: service.Key) -> str:
        try:
            async with asyncio.timeout(RECONCILE_LIMIT_S):
                again_s = await self._reconciler.reconcile(key)
        except (kube.KubeError, upkeep.NameConflictError, TimeoutError) as error:
            delay_s = self._keys.failed(key)
            logger.warning("%s: %s; again in %.0f s", key, str(error) or "took too long", delay_s)
            return "retried"
        except Exception:  # outermost loop: one service's defect must not stop the others
            delay_s = self._keys.failed(key)
            logger.exception("%s: failed; again in %.0f s", key, delay_s)
            return "failed"
        self._keys.done(key, again_s)
        return "done"
