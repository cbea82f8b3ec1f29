"""Brokers of system `mailroom`: as any that has a method map, but a topic's namespace ends at a colon."""

from sluicegate.api import TopicName, hookimpl
from sluicegate_grpc.driver import GrpcDriver


class MailroomDriver(GrpcDriver):
    """The driver for any method map, which reads names in another way."""

    def name_of(self, topic, config):
        """What precedes the colon."""
        namespace, colon, _ = topic.partition(":")
        return TopicName(topic, namespace if colon else "default")


@hookimpl
def sluicegate_grpc_driver(methods):
    return MailroomDriver(methods) if methods.system == "mailroom" else None
