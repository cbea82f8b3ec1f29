"""A stand-in for a Kafka broker within this process: the mock cluster of librdkafka.

It is no Kafka broker. It speaks enough of the protocol for producers, consumers and groups, on loopback, in
memory, in threads of librdkafka; good for a demo and fast tests, never for judging Kafka itself.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

LABEL = "librdkafka mock cluster, not a Kafka broker"
_START_S = 10.0
_ERRORS_ONLY = 3


@asynccontextmanager
async def mock_cluster(brokers: int = 1) -> AsyncIterator[tuple[str, ...]]:
    """Run a mock cluster within the block.

    :param brokers: number of nodes, with ids from 1.
    :return: the addresses of its nodes, host:port. Topics come into being when they are first named, with
        four partitions each.
    :raises ImportError: if confluent-kafka is not installed (extra `kafka`).
    :raises OSError: if the cluster does not come up.
    """
    from confluent_kafka import KafkaException, Producer

    # The cluster lives as long as this client, which sends nothing itself.
    owner = Producer(
        {"test.mock.num.brokers": brokers, "bootstrap.servers": "replaced", "log_level": _ERRORS_ONLY}
    )
    try:
        metadata = await asyncio.to_thread(owner.list_topics, timeout=_START_S)
    except KafkaException as error:
        raise OSError(f"the {LABEL} did not come up within {_START_S:.0f} s: {error}") from error
    try:
        yield tuple(f"{node.host}:{node.port}" for _, node in sorted(metadata.brokers.items()))
    finally:
        del owner
