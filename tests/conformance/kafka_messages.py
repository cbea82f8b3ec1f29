"""What Kafka's client libraries have in common at a door."""

from sluicegate.testing.conformance.door import Sample

PARTITION = 0
"""All messages of a scenario go here, so that their order is that of its steps."""
_MAGIC = b"\0"
_SCHEMA_BYTES = 5


def encoded(message: Sample) -> bytes:
    """The value of a message; one that names a schema is in the wire format of Confluent's serializers."""
    if not message.schema:
        return message.value
    return _MAGIC + int(message.schema).to_bytes(_SCHEMA_BYTES - 1, "big") + message.value


def decoded(value: bytes | None) -> bytes:
    """The scenario's value of a message, which begins with a digit."""
    value = value or b""
    return value[_SCHEMA_BYTES:] if value.startswith(_MAGIC) else value


def group(topic: str, subscription: str) -> str:
    """The group of a subscription: groups are not of one topic."""
    return f"{topic}-{subscription}"
