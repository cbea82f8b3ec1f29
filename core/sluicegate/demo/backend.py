"""The process of a backend: `python -m sluicegate.demo.backend SYSTEM [slow]`; with a slow disk if so.

It ends with its standard input.
"""

import asyncio
import sys
from collections.abc import Mapping
from typing import Any

from sluicegate.demo.first_minute.slow_disk import SlowDisk
from sluicegate.demo.scene import Backend, BrokerDemo
from sluicegate.host.children import commands, say
from sluicegate.runtime.plugins import load_plugins


def demo_of(system: str) -> BrokerDemo:
    """The demo of a kind of broker.

    :raises KeyError: if no plugin has a driver for it, or its driver has no demo.
    """
    demo: BrokerDemo | None = load_plugins(()).drivers[system].demo()
    if demo is None:
        raise KeyError(system)
    return demo


async def _acted(backend: Backend, action: str, topic: str) -> Mapping[str, Any]:
    try:
        return {"given": dict(await backend.actions[action](topic))}
    except Exception as error:  # noqa: BLE001 - reported, and the scene fails
        return {"error": f"{type(error).__name__}: {error}"}


async def _run(system: str, *, is_slow: bool) -> None:
    demo = demo_of(system)
    async with SlowDisk() as disk, demo.shared.backend(disk.front) if is_slow else demo.backend() as backend:
        up = {
            "entry": dict(backend.entry),
            "notes": list(backend.notes),
            "gateway_ports": backend.gateway_ports,
        }
        say({"up": up})
        async for command in commands():
            if "act" in command:
                say({"acted": await _acted(backend, command["act"], command["topic"])})
            else:
                disk.bytes_per_second = command["bytes_per_second"]
                say({"slowed": True})


if __name__ == "__main__":
    try:
        asyncio.run(_run(sys.argv[1], is_slow=sys.argv[2:] == ["slow"]))
    except OSError as error:
        # The demo shows this as the child's last output.
        sys.exit(str(error))
