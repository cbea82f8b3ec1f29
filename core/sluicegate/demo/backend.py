"""The process of a backend: `python -m sluicegate.demo.backend SYSTEM`; it ends with its standard input."""

import asyncio
import sys

from sluicegate.children import commands, say
from sluicegate.demo.scene import BrokerDemo
from sluicegate.gateway.plugins import load_plugins


def demo_of(system: str) -> BrokerDemo:
    """How a kind of broker is shown.

    :raises KeyError: if no plugin drives it.
    """
    found: BrokerDemo = load_plugins(()).drivers[system].demo()  # type: ignore[attr-defined]
    return found


async def _run(system: str) -> None:
    async with demo_of(system).backend() as backend:
        say({"up": {"entry": dict(backend.entry), "notes": list(backend.notes)}})
        async for _ in commands():
            pass


if __name__ == "__main__":
    try:
        asyncio.run(_run(sys.argv[1]))
    except OSError as error:
        # These are the last words that the demo shows.
        sys.exit(str(error))
