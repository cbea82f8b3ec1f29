"""One message passes and one is refused: danube-client, in front of the reference broker."""

import asyncio

import grpc
from danube import DanubeClientBuilder
from tests.install.programs.gate import LARGE, SMALL, TOPICS, gate, tell

from sluicegate_danube.reference import ReferenceBroker


async def publish(address: str) -> None:
    client = await DanubeClientBuilder().service_url(f"http://{address}").build()
    producer = client.new_producer().with_topic(TOPICS["danube"]).with_name("shop").build()
    await producer.create()
    await producer.send(SMALL)
    try:
        await producer.send(LARGE)
    except grpc.RpcError as error:
        tell(error)


def serve_and_publish(broker: str) -> None:
    with gate("danube", [broker]) as address:
        asyncio.run(publish(address))


async def main() -> None:
    async with ReferenceBroker(port=0) as broker:
        await asyncio.to_thread(serve_and_publish, broker.urls[0].removeprefix("http://"))


asyncio.run(main())
