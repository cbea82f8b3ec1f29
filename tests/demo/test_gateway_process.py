"""The demo's gateway is `sluicegate run`; where that fails, its own last words say why."""

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.demo.scenes import NoBroker, scene

from sluicegate.demo.gateway_process import Gateway, GatewayError
from sluicegate.demo.policy_file import PolicyFile
from sluicegate.demo.ports import free_ports
from sluicegate.demo.scene import Backend

pytestmark = pytest.mark.slow


def gate(directory: Path, port: int, settings: Mapping[str, Any]) -> Gateway:
    """A gate in front of nothing."""
    entry = {
        "bootstrap": ["127.0.0.1:1"],
        "listen": {"host": "127.0.0.1", "port": port},
        "node_port_base": free_ports(1),
    }
    file = PolicyFile(directory / "gateway.yaml", directory / "state", free_ports(1))
    file.add("kafka", NoBroker(), Backend(entry), [scene("size", **settings)])
    file.write()
    return Gateway(file, file.admin_port, directory / "gateway.log")


@pytest.fixture(autouse=True)
def only_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")


async def test_a_file_with_mistakes_is_reported_as_run_does(tmp_path: Path) -> None:
    with pytest.raises(GatewayError, match=r"the gateway ended; its last output: .*max_message_size.*'-1'"):
        async with gate(tmp_path, free_ports(1), {"max_message_size": "-1"}):
            pass


async def test_a_port_that_is_taken_meanwhile_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(GatewayError, match=rf"its last output: .*{port}"):
            async with gate(tmp_path, port, {"max_message_size": "1KiB"}):
                pass


async def test_a_gateway_that_has_ended_is_an_error_instead_of_an_endless_wait(tmp_path: Path) -> None:
    made = gate(tmp_path, free_ports(1), {"max_message_size": "1KiB"})
    async with made:
        await made.settled()
    with pytest.raises(GatewayError, match=r"the gateway does not respond \(.*: .*sluicegate ready: "):
        await made.settled()
