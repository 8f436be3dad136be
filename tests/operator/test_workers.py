"""The outermost loop, with an API server that is not there: what fails is counted and comes back, and nothing else stops."""

import asyncio
import socket
import time
from collections.abc import Callable

from kubernetes.aio.client import ApiClient, Configuration

from octavo_operator import kube, metrics, mirror, queue, reconcile, service, workers
from octavo_operator.installation import Installation
from octavo_operator.state import readings


def closed_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


NOTHING_WATCHED = reconcile.Watched(
    pods_of=lambda _: (),
    children_of=lambda _: (),
    served=frozenset,
    inspections_of=lambda _: (),
    look_at=lambda _: None,
)


def test_a_service_that_cannot_be_reconciled_comes_back_later_and_others_go_on() -> None:
    async def story() -> None:
        delays_s: list[float] = []
        both_failed = asyncio.Event()

        def call_later(delay_s: float, _: Callable[[], None]) -> None:
            delays_s.append(delay_s)
            if len(delays_s) == 2:
                both_failed.set()

        keys: queue.KeyQueue[service.Key] = queue.KeyQueue(call_later)
        async with ApiClient(Configuration(host=f"http://127.0.0.1:{closed_port()}")) as client:
            api = kube.Kube(client)
            counters = metrics.Metrics(api, keys)
            crew = workers.Workers(
                keys,
                reconcile.Reconciler(
                    api, mirror.Mirror(api), NOTHING_WATCHED, Installation(), readings.Readings(time.monotonic)
                ),
                counters,
            )
            for name in ("one", "two"):
                keys.add(service.Key("demo", name))
            work = asyncio.create_task(crew.work())
            async with asyncio.timeout(10):
                await both_failed.wait()
                crew.stop()
                await crew.idle()
            work.cancel()
        assert delays_s == [1, 1]
        assert counters.registry.get_sample_value("octavo_operator_reconciles_total", {"outcome": "retried"}) == 2
        assert counters.registry.get_sample_value("octavo_operator_queue_depth") == 0
        assert crew.longest_s() == 0

    asyncio.run(story())
