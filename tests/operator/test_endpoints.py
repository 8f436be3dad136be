import asyncio
import socket

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from octavo_operator import endpoints


def free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as two:
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


@pytest.mark.parametrize(
    ("reconcile_s", "silence_s", "healthy", "ready"),
    [
        pytest.param(0, 0, 200, 200, id="all well"),
        pytest.param(0, 90, 200, 503, id="the API server is away for a moment"),
        pytest.param(0, 400, 503, 503, id="no answer for minutes"),
        pytest.param(400, 0, 503, 503, id="a reconcile that does not end"),
    ],
)
def test_health_says_whether_a_restart_would_help(
    reconcile_s: float, silence_s: float, healthy: int, ready: int
) -> None:
    async def story() -> None:
        health_port, metrics_port = free_ports()
        registry = CollectorRegistry()
        Counter("octavo_sample", "A sample.", registry=registry).inc()
        vitals = endpoints.Vitals(lambda: reconcile_s, lambda: silence_s)
        async with (
            endpoints.served(health_port, metrics_port, vitals, registry),
            aiohttp.ClientSession() as session,
        ):
            for path, status in (("healthz", healthy), ("readyz", ready)):
                async with session.get(f"http://127.0.0.1:{health_port}/{path}") as answer:
                    assert answer.status == status
            async with session.get(f"http://127.0.0.1:{metrics_port}/metrics") as answer:
                assert "octavo_sample_total 1.0" in await answer.text()

    asyncio.run(story())
