import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import pytest
from tests.metrics.status import STATUS
from tests.waiting import until_so

from sluicegate.metrics.http import AdminServer, make_app


class Observed:
    reasons: Sequence[str] = ("worker of broker 'b1' is down",)

    def snapshots(self) -> list[dict[str, Any]]:
        return []

    def status(self) -> dict[str, Any]:
        return STATUS

    def not_ready(self) -> Sequence[str]:
        return self.reasons

    def brokers(self) -> Mapping[str, Mapping[str, Any]]:
        refused = "127.0.0.1:6650: connection refused"
        return {
            "b1": {"up": True, "since_ms": 0, "reason": "", "notes": ["node 1 is odd", "node 2 too"]},
            "b2": {"up": True, "since_ms": 60_000, "reason": refused},
            "b3": {"up": False, "since_ms": 61_000, "reason": refused},
            "b4": {"up": False, "since_ms": None, "reason": "its worker does not tell"},
        }


async def asked(observed: Observed, query: str) -> tuple[int, list[str]]:
    """Status and lines of `/readyz`."""
    transport = httpx.ASGITransport(make_app(observed))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        response = await client.get(f"/readyz?{query}")
    return response.status_code, response.text.splitlines()


async def test_a_gateway_without_its_broker_is_ready_and_reports_it_on_request() -> None:
    observed = Observed()
    observed.reasons = ()
    assert await asked(observed, "") == (200, ["ok"])
    assert await asked(observed, "verbose") == (
        200,
        [
            "ok",
            "broker 'b1' is up since 1970-01-01T00:00:00+00:00",
            "broker 'b1': node 1 is odd",
            "broker 'b1': node 2 too",
            "broker 'b2' is up since 1970-01-01T00:01:00+00:00, except 127.0.0.1:6650: connection refused",
            "broker 'b3' is not reachable since 1970-01-01T00:01:01+00:00: "
            "127.0.0.1:6650: connection refused",
            "broker 'b4' is not reachable: its worker does not tell",
        ],
    )


async def test_a_probe_for_a_broker_gets_503_while_it_is_not_reachable() -> None:
    observed = Observed()
    observed.reasons = ()
    assert await asked(observed, "broker=b1&broker=b2") == (200, ["ok"])
    status, lines = await asked(observed, "broker=b1&broker=b3")
    assert status == 503
    assert lines == [
        "broker 'b3' is not reachable since 1970-01-01T00:01:01+00:00: 127.0.0.1:6650: connection refused"
    ]
    assert await asked(observed, "broker=b9") == (404, ["no broker 'b9'; there are b1, b2, b3, b4"])
    observed.reasons = ("draining",)
    assert await asked(observed, "broker=b1") == (503, ["draining"])


async def test_health_and_metrics() -> None:
    observed = Observed()
    admin = AdminServer(observed, "127.0.0.1", 0)
    admin.start()
    host, port = admin.address
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}") as client:
        assert (await client.get("/livez")).text == "ok\n"
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "worker of broker 'b1' is down\n")
        observed.reasons = ()
        assert (await client.get("/readyz")).status_code == 200
        metrics = await client.get("/metrics")
        assert metrics.headers["content-type"].startswith("text/plain; version=")
        assert "sluicegate_config_last_reload_successful 1.0" in metrics.text
    await admin.stop()
    with pytest.raises(httpx.ConnectError):
        await asyncio.to_thread(httpx.get, f"http://{host}:{port}/livez")


async def test_port_in_use_is_named() -> None:
    admin = AdminServer(Observed(), "127.0.0.1", 0)
    _, port = admin.address
    with pytest.raises(OSError, match=rf"cannot listen on 127.0.0.1:{port} \(admin\)"):
        AdminServer(Observed(), "127.0.0.1", port)
    await admin.stop()


async def test_another_host_is_refused_unless_it_is_allowed() -> None:
    admin = AdminServer(Observed(), "127.0.0.1", 0, allowed_hosts=["gate.example"])
    admin.start()
    host, port = admin.address
    async with httpx.AsyncClient(base_url=f"http://{host}:{port}") as client:
        for path in ("/metrics", "/livez", "/readyz?verbose"):
            evil = await client.get(path, headers={"host": f"evil.example:{port}"})
            assert (evil.status_code, "admin.allowed_hosts" in evil.text) == (421, True)
        assert (await client.get("/livez", headers={"host": "gate.example"})).text == "ok\n"
    await admin.stop()


class Counting(Observed):
    """Waits within each exposition, and counts them."""

    def __init__(self) -> None:
        self.begun = 0
        self.go_on = threading.Event()

    def snapshots(self) -> list[dict[str, Any]]:
        self.begun += 1
        self.go_on.wait()
        return []


async def test_clients_that_ask_for_metrics_at_once_share_one_exposition() -> None:
    observed = Counting()
    transport = httpx.ASGITransport(make_app(observed))
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        asking = [asyncio.ensure_future(client.get("/metrics")) for _ in range(50)]
        await until_so(lambda: observed.begun)
        assert (await client.get("/livez")).status_code == 200
        observed.go_on.set()
        texts = {(await each).text for each in asking}
        assert observed.begun == 1
        assert len(texts) == 1
        await client.get("/metrics")
        assert observed.begun == 2
