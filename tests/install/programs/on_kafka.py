"""One message passes and one is refused: aiokafka, in front of librdkafka's mock cluster."""

import asyncio

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from tests.install.programs.gate import LARGE, SMALL, TOPICS, gate, tell

from sluicegate_kafka.demo.mock_cluster import mock_cluster


async def main() -> None:
    async with mock_cluster() as nodes:
        with gate("kafka", nodes) as address:
            producer = AIOKafkaProducer(bootstrap_servers=address)
            await producer.start()
            try:
                await producer.send_and_wait(TOPICS["kafka"], SMALL)
                await producer.send_and_wait(TOPICS["kafka"], LARGE)
            except KafkaError as error:
                tell(error)
            finally:
                await producer.stop()


asyncio.run(main())
