import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from sluicegate.metrics.http import AdminServer


class Observed:
    reasons: Sequence[str] = ("worker of broker 'b1' is down",)

    def snapshots(self) -> list[dict[str, Any]]:
        return []

    def status(self) -> dict[str, Any]:
        return {"workers": {}, "reload_successful": True, "reloads_failed": 0, "version": 1}

    def not_ready(self) -> Sequence[str]:
        return self.reasons


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
