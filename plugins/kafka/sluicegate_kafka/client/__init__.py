"""Clients of Kafka that apply the policies in the application's own process.

The originals' names and signatures with one more keyword, `policies`: a `PolicyEngine`, or the path of a
policy file. Only the library of the class that is asked for is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluicegate_kafka.client.aio_consumer import AIOKafkaConsumer
    from sluicegate_kafka.client.aio_producer import AIOKafkaProducer
    from sluicegate_kafka.client.rd_aio import AIOConsumer, AIOProducer
    from sluicegate_kafka.client.rd_consumer import Consumer
    from sluicegate_kafka.client.rd_producer import Producer

__all__ = ["AIOConsumer", "AIOKafkaConsumer", "AIOKafkaProducer", "AIOProducer", "Consumer", "Producer"]

_MODULES = {
    "AIOConsumer": "rd_aio",
    "AIOProducer": "rd_aio",
    "AIOKafkaConsumer": "aio_consumer",
    "AIOKafkaProducer": "aio_producer",
    "Consumer": "rd_consumer",
    "Producer": "rd_producer",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
