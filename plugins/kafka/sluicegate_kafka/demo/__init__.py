"""Kafka's part of `sluicegate demo`; needs the extra `kafka`."""

from sluicegate_kafka.demo.show import KafkaDemo

__all__ = ["KafkaDemo"]
