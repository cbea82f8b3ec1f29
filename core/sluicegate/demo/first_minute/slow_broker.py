"""The process of a broker with a slow disk: `python -m sluicegate.demo.first_minute.slow_broker SYSTEM`.

It ends with its standard input.
"""

import asyncio
import sys

from sluicegate.demo.backend import demo_of
from sluicegate.demo.first_minute.slow_disk import SlowDisk
from sluicegate.host.children import commands, say


async def _run(system: str) -> None:
    async with SlowDisk() as disk, demo_of(system).shared.backend(disk.front) as backend:
        say({"up": {"entry": dict(backend.entry), "gateway_ports": backend.gateway_ports}})
        async for command in commands():
            disk.bytes_per_second = command["bytes_per_second"]
            say({"slowed": True})


if __name__ == "__main__":
    try:
        asyncio.run(_run(sys.argv[1]))
    except OSError as error:
        # The demo shows this as the child's last output.
        sys.exit(str(error))
