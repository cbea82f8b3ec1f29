"""Every scenario at each of Kafka's doors, on the mock cluster of librdkafka."""

from tests.conformance.kafka_driver import DRIVER

from sluicegate.testing.conformance.suite import ConformanceSuite


class TestKafka(ConformanceSuite):
    """The suite at all doors."""

    driver = DRIVER
