"""Run a reference broker: `python -m sluicegate_danube.reference --port 6650`."""

import argparse
import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

import grpc.aio

from sluicegate.config.errors import ConfigErrors
from sluicegate.output import echo, echo_document
from sluicegate.store.metadata import MetadataStore, open_metadata
from sluicegate.store.policy_store import StoreError
from sluicegate_danube.method_map import METHOD_MAP
from sluicegate_danube.reference import LABEL, ReferenceBroker
from sluicegate_danube.reference.stored import StoredBroker
from sluicegate_danube.reference.stored.stored_broker import TTL_S


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
    stored = parser.add_argument_group("a cluster by a metadata store")
    stored.add_argument(
        "--store",
        metavar="URL",
        help="etcd://HOST:PORT, sqlite:///PATH, or memory: for the brokers of this process",
    )
    stored.add_argument("--broker-id", type=int, default=1, help="of the first broker (%(default)s)")
    stored.add_argument(
        "--ttl", type=int, default=TTL_S, help="seconds until a silent broker is dead (%(default)s)"
    )
    return parser.parse_args(arguments)


@contextmanager
def _policies(file: str | None) -> Iterator[list[grpc.aio.ServerInterceptor]]:
    """All that the author of a broker adds for policies. Without a file none of it is loaded."""
    if file is None:
        yield []
        return
    from sluicegate.embedded import PolicyEngine
    from sluicegate_grpc.aio import PolicyServerInterceptor

    with PolicyEngine.from_file(file) as engine:
        yield [PolicyServerInterceptor(engine, METHOD_MAP)]


@asynccontextmanager
async def _brokers(
    given: argparse.Namespace, interceptors: Sequence[grpc.aio.ServerInterceptor]
) -> AsyncIterator[list[str]]:
    """The brokers' URLs."""
    if given.store is None:
        async with ReferenceBroker(
            host=given.host, port=given.port, brokers=given.brokers, interceptors=interceptors
        ) as broker:
            yield broker.urls
        return
    async with AsyncExitStack() as stack:
        store = _open(given.store)
        stack.push_async_callback(store.close)
        urls = []
        for index in range(given.brokers):
            broker_id, port = given.broker_id + index, given.port + index if given.port else 0
            stored = StoredBroker(
                store, broker_id, host=given.host, port=port, ttl_s=given.ttl, interceptors=interceptors
            )
            urls.append((await stack.enter_async_context(stored)).url)
        yield urls


def _open(url: str) -> MetadataStore:
    """The store that a URL names.

    :raises StoreError: if there is none of its kind, or if it names a prefix: Danube's keys have none.
    """
    opened = open_metadata(url)
    if opened is None:
        raise StoreError(f"cannot open {url!r}", "write etcd://HOST:PORT, sqlite:///PATH or memory:")
    store, prefix = opened
    if prefix:
        raise StoreError(f"Danube's keys begin with no prefix, got {prefix!r}", "leave the path out")
    return store


async def _run(given: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for each in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(each, stopped.set)
    with _policies(given.policies) as interceptors:
        async with _brokers(given, interceptors) as urls:
            echo(f"{LABEL}, in memory, no Danube: {' '.join(urls)}")
            await stopped.wait()


def main(arguments: list[str] | None = None) -> int:
    """Run until SIGINT or SIGTERM.

    :return: the exit status: 2 if a port is not available, or if the policies have mistakes.
    """
    try:
        asyncio.run(_run(_arguments(arguments)))
    except OSError as error:
        echo(f"cannot listen: {error}", err=True)
        return 2
    except StoreError as error:
        echo(str(error), err=True)
        return 2
    except ConfigErrors as error:
        echo_document(error.render(), err=True)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
