"""A supervisor starts workers while its policy store speaks to etcd: none may end before it began."""

import os
import subprocess
import sys

from tests.waiting import LONG_S

PROGRAM = """
import asyncio, os, sys, threading
import sluicegate.cli, grpc, uvloop
from sluicegate.store.plugin import sluicegate_metadata_store

async def main():
    store, done = sluicegate_metadata_store(sys.argv[1]), threading.Event()

    def speak():
        while not done.is_set():
            store.facts("")

    speaking = threading.Thread(target=speak)
    speaking.start()
    for _ in range(25):
        process = await asyncio.create_subprocess_exec("true", pass_fds=(0,))
        assert await process.wait() == 0
    done.set()
    speaking.join()
    store.close()

uvloop.run(main())
"""


def test_processes_start_while_etcd_is_queried(etcd_url: str) -> None:
    """Without `sluicegate.cli` gRPC tells at each start that it skips its handlers, and some starts fail."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("GRPC_ENABLE")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, f"{etcd_url}?timeout={LONG_S}s"],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
