"""Run a reference broker: `python -m sluicegate_danube.reference --port 6650`."""

import argparse
import asyncio
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import grpc.aio

from sluicegate.config.errors import ConfigErrors
from sluicegate_danube.method_map import METHOD_MAP
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
    parser.add_argument(
        "--policies", metavar="FILE", help="apply the policies of this file, by an interceptor"
    )
    return parser.parse_args(arguments)


@contextmanager
def _policies(file: str | None) -> Iterator[list[grpc.aio.ServerInterceptor]]:
    """All that a broker's author adds to have policies. Nothing of it is loaded without a file."""
    if file is None:
        yield []
        return
    from sluicegate.embedded import PolicyEngine
    from sluicegate_grpc.aio import PolicyServerInterceptor

    with PolicyEngine.from_file(file) as engine:
        yield [PolicyServerInterceptor(engine, METHOD_MAP)]


async def _run(given: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopped.set)
    with _policies(given.policies) as interceptors:
        async with ReferenceBroker(
            host=given.host, port=given.port, brokers=given.brokers, interceptors=interceptors
        ) as broker:
            sys.stdout.write(f"{LABEL}, in memory, no Danube: {' '.join(broker.urls)}\n")
            sys.stdout.flush()
            await stopped.wait()


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM.

    :return: the exit status: 2 if a port cannot be had, or if the policies have mistakes.
    """
    try:
        asyncio.run(_run(_arguments(arguments)))
    except OSError as error:
        sys.stderr.write(f"cannot listen: {error}\n")
        return 2
    except ConfigErrors as error:
        sys.stderr.write(f"{error.render()}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
