"""The client in the README's opening is refused as its comment says."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.demo.scenes import NoBroker, scene
from tests.house.test_documents import ROOT
from tests.waiting import LONG_S

from sluicegate.demo.gateway_process import Gateway
from sluicegate.demo.policy_file import PolicyFile
from sluicegate.demo.ports import free_ports
from sluicegate.demo.scene import Backend
from sluicegate_kafka.demo.mock_cluster import mock_cluster

pytestmark = pytest.mark.slow


async def test_its_own_library_tells_the_noisy_producer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")
    [snippet] = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    told = snippet.rstrip().rpartition("  # ")[2]
    port = free_ports(3)
    file = PolicyFile(
        tmp_path / "gateway.yaml",
        tmp_path / "state",
        free_ports(1),
        {"max_publish_rate": "3/s", "on_limit": {"max_publish_rate": "reject"}},
    )
    async with mock_cluster() as [address]:
        listen = {"host": "127.0.0.1", "port": port}
        file.add("kafka", NoBroker(), Backend({"bootstrap": [address], "listen": listen}), [scene("size")])
        file.write()
        async with Gateway(file, file.admin_port, tmp_path / "gateway.log"):
            program = snippet.replace("127.0.0.1:19092", file.address("kafka"))
            command = [sys.executable, "-P", "-c", program]
            done = await asyncio.to_thread(
                subprocess.run, command, capture_output=True, text=True, timeout=LONG_S, check=False
            )
    assert done.stderr.splitlines()[-1] == told
