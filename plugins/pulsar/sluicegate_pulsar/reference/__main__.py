"""Run a reference broker: `python -m sluicegate_pulsar.reference --port 6650 --admin-port 8080`."""

import argparse
import asyncio
import signal
import sys

from sluicegate.output import echo
from sluicegate_pulsar.reference import LABEL, ReferenceBroker, Settings


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sluicegate_pulsar.reference",
        description="An in-memory broker that speaks Pulsar's binary protocol. It is not Pulsar.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument("--port", type=int, default=6650, help="Pulsar protocol; 0: a free one (%(default)s)")
    parser.add_argument("--admin-port", type=int, default=8080, help="HTTP; 0: a free one (%(default)s)")
    parser.add_argument("--tick", type=int, default=100, metavar="MS", help="of delays (%(default)s)")
    return parser.parse_args(arguments)


async def _run(given: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopped.set)
    settings = Settings(tick_ms=given.tick)
    async with ReferenceBroker(
        settings, host=given.host, port=given.port, admin_port=given.admin_port
    ) as broker:
        echo(f"{LABEL}, in memory, not Pulsar: {broker.service_url} {broker.admin_url}")
        await stopped.wait()


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM.

    :return: the exit status: 2 if a port is not available.
    """
    try:
        asyncio.run(_run(_arguments(arguments)))
    except OSError as error:
        echo(f"cannot listen: {error.strerror}", err=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
