"""Run a reference broker: `python -m sluicegate_danube.reference --port 6650`."""

import argparse
import asyncio
import signal
import sys

from sluicegate_danube.reference import LABEL, ReferenceBroker


def _arguments(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sluicegate_danube.reference",
        description="An in-memory broker that speaks Danube's gRPC protocol. It is no Danube.",
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (%(default)s)")
    parser.add_argument(
        "--port", type=int, default=6650, help="of the first broker; 0: a free one (%(default)s)"
    )
    parser.add_argument("--brokers", type=int, default=1, help="of the cluster (%(default)s)")
    return parser.parse_args(arguments)


async def _run(given: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopped.set)
    async with ReferenceBroker(host=given.host, port=given.port, brokers=given.brokers) as broker:
        sys.stdout.write(f"{LABEL}, in memory, no Danube: {' '.join(broker.urls)}\n")
        sys.stdout.flush()
        await stopped.wait()


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM.

    :return: the exit status: 2 if a port cannot be had.
    """
    try:
        asyncio.run(_run(_arguments(arguments)))
    except OSError as error:
        sys.stderr.write(f"cannot listen: {error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
