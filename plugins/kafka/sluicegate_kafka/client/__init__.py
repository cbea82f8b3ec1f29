"""Clients of Kafka that apply the policies in the application's own process.

The originals' names and signatures with one more keyword, `policies`: a `PolicyEngine`, or the path of a
policy file.
"""

from sluicegate_kafka.client.aio_consumer import AIOKafkaConsumer
from sluicegate_kafka.client.aio_producer import AIOKafkaProducer

__all__ = ["AIOKafkaConsumer", "AIOKafkaProducer"]
