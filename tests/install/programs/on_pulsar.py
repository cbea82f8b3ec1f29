"""One message passes and one is refused: pulsar-client, in front of the reference broker."""

import asyncio

import pulsar
from tests.install.programs.gate import LARGE, SMALL, TOPICS, gate, tell

from sluicegate_pulsar.reference import ReferenceBroker


def publish(address: str) -> None:
    client = pulsar.Client(f"pulsar://{address}", logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    try:
        producer = client.create_producer(TOPICS["pulsar"])
        producer.send(SMALL)
        producer.send(LARGE)
    except pulsar.PulsarException as error:
        tell(error)
    finally:
        client.close()


async def main() -> None:
    async with ReferenceBroker(port=0, admin_port=0) as broker:
        address = broker.service_url.removeprefix("pulsar://")
        await asyncio.to_thread(serve_and_publish, address)


def serve_and_publish(broker: str) -> None:
    with gate("pulsar", [broker]) as address:
        publish(address)


asyncio.run(main())
