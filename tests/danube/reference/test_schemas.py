"""The schema registry, by Danube's own client."""

import json

import grpc
import pytest
from danube import CompatibilityMode, DanubeClient, SchemaRegistryClient, SchemaType
from tests.danube.support.clients import consuming, danube_client, producing

from sluicegate_danube.reference import ReferenceBroker, Settings


def avro(**fields: object) -> bytes:
    """A record; a field whose value is None has no default."""
    told = [
        {"name": name, "type": "string"} | ({} if default is None else {"default": default})
        for name, default in fields.items()
    ]
    return json.dumps({"type": "record", "name": "Order", "fields": told}).encode()


async def register(
    schemas: SchemaRegistryClient, definition: bytes, kind: SchemaType = SchemaType.AVRO
) -> int:
    made = schemas.register_schema("orders").with_type(kind).with_schema_data(definition)
    schema_id: int = await made.with_description("of a shop").with_tags(["shop"]).execute()
    return schema_id


async def test_versions_of_a_schema(client: DanubeClient) -> None:
    schemas = client.schema()
    one, two = avro(id=None), avro(id=None, note="")
    schema_id = await register(schemas, one)
    assert await register(schemas, one) == schema_id
    assert await register(schemas, two) == schema_id
    assert await schemas.list_versions("orders") == [1, 2]
    latest = await schemas.get_latest_schema("orders")
    assert (latest.version, latest.schema_definition, latest.schema_type) == (2, two, "avro")
    assert (await schemas.get_schema_by_id(schema_id)).version == 2
    first = await schemas.get_schema_version(schema_id, 1)
    assert (first.schema_definition, first.subject) == (one, "orders")
    assert first.fingerprint != latest.fingerprint
    assert (await schemas.delete_schema_version("orders", 2))[0]
    assert await schemas.list_versions("orders") == [1]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await schemas.delete_schema_version("orders", 1)
    assert refused.value.code() is grpc.StatusCode.INTERNAL


@pytest.mark.parametrize(
    ("mode", "definition", "compatible"),
    [
        (CompatibilityMode.BACKWARD, avro(id=None, note=""), True),
        (CompatibilityMode.BACKWARD, avro(id=None, note=None), False),
        (CompatibilityMode.BACKWARD, avro(), True),
        (CompatibilityMode.FORWARD, avro(), False),
        (CompatibilityMode.FORWARD, avro(id=None, note=None), True),
        (CompatibilityMode.FULL, avro(id=None, note=None), False),
        (CompatibilityMode.FULL, avro(id=None, note=""), True),
        (CompatibilityMode.NONE, avro(other=None), True),
        (CompatibilityMode.NONE, b"{", False),
    ],
)
async def test_compatibility(
    client: DanubeClient, mode: CompatibilityMode, definition: bytes, compatible: bool
) -> None:
    schemas = client.schema()
    await register(schemas, avro(id=None))
    asked = await schemas.check_compatibility("orders", definition, SchemaType.AVRO, mode)
    assert asked[0] is compatible
    assert bool(asked[1]) is not compatible
    assert (await schemas.set_compatibility_mode("orders", mode))[0]
    assert (await schemas.check_compatibility("orders", definition, SchemaType.AVRO))[0] is compatible
    if compatible:
        await register(schemas, definition)
    else:
        with pytest.raises(grpc.aio.AioRpcError, match="Failed to register"):
            await register(schemas, definition)


async def test_a_subject_keeps_its_type(client: DanubeClient) -> None:
    schemas = client.schema()
    await register(schemas, b"anything", SchemaType.BYTES)
    (compatible, errors) = await schemas.check_compatibility("orders", b"{}", SchemaType.JSON_SCHEMA)
    assert not compatible
    assert errors == ["orders is bytes, not json_schema"]


async def test_missing_schemas(client: DanubeClient) -> None:
    schemas = client.schema()
    for missing in (
        schemas.get_latest_schema("nothing"),
        schemas.list_versions("nothing"),
        schemas.get_schema_by_id(5),
    ):
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await missing
        assert refused.value.code() is grpc.StatusCode.NOT_FOUND
    await register(schemas, avro(id=None))
    with pytest.raises(grpc.aio.AioRpcError, match="no version 7"):
        await schemas.get_schema_version(1, 7)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await schemas.get_topic_schema_config("/default/orders")
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_versions_are_bounded() -> None:
    async with ReferenceBroker(Settings(max_schemas=1)) as broker, danube_client(broker.urls[0]) as client:
        await register(client.schema(), avro(id=None))
        with pytest.raises(grpc.aio.AioRpcError, match="room for 1 versions"):
            await register(client.schema(), avro(id=None, note=""))


async def test_a_producer_with_a_schema(client: DanubeClient, topic: str) -> None:
    schema_id = await register(client.schema(), avro(id=None))
    async with (
        producing(client, topic, subject="orders") as producer,
        consuming(client, topic) as consumer,
    ):
        await producer.send(b"x")
        message = await consumer.next()
        assert (message.schema_id, message.schema_version) == (schema_id, 1)
    for subject, text in (("others", "uses the schema subject orders"),):
        with pytest.raises(grpc.aio.AioRpcError, match=text) as refused:
            async with producing(client, topic, "other", subject=subject):
                pass
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    with pytest.raises(grpc.aio.AioRpcError, match="not registered"):
        async with producing(client, f"{topic}_2", subject="others"):
            pass
