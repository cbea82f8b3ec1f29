"""Notifications to the service manager."""

import socket
from pathlib import Path

import pytest

from sluicegate.net.listening.succession import notify


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
