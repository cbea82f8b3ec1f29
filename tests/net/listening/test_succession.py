"""Between the gateways before and after one, and notifications to the service manager."""

import asyncio
import socket
from collections.abc import Awaitable
from pathlib import Path

import pytest
from tests.gateway.lab import on_uvloop
from tests.waiting import until_answered

from sluicegate.net.listening.succession import Succession, notify


@on_uvloop
async def test_a_successor_that_failed_does_not_begin_with_the_next_one(tmp_path: Path) -> None:
    def asks() -> Awaitable[Succession]:
        return asyncio.to_thread(Succession, str(tmp_path), replace=True)

    gateway = Succession(str(tmp_path), replace=False)
    gateway.begin(list, lambda: None)
    failed = await asks()
    failed.close()
    # It is refused until the gateway has noticed that the other one is gone.
    following = await until_answered(asks, lambda error: isinstance(error, OSError))
    following.begin(list, lambda: None)
    assert gateway.term.ends.is_set
    assert following.term.begins.is_set
    assert not failed.term.begins.is_set, "its workers may not have noticed that it has ended"
    following.close()
    gateway.close()


@pytest.mark.parametrize("is_abstract", [False, True])
def test_systemd_is_notified_on_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_abstract: bool
) -> None:
    name = f"{tmp_path.name}-{is_abstract}" if is_abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}" if is_abstract else name)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if is_abstract else name)
        notify("READY=1")
        assert manager.recv(100) == b"READY=1"


def test_nothing_is_notified_without_a_notify_socket(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")
