"""The three client families behind one interface, so that one test holds for each of them."""

from tests.kafka.real.support.families.aio import AiokafkaFamily
from tests.kafka.real.support.families.base import Family, Member, Mode, Received
from tests.kafka.real.support.families.java import JavaFamily
from tests.kafka.real.support.families.rdkafka import RdkafkaFamily

__all__ = [
    "AiokafkaFamily",
    "Family",
    "JavaFamily",
    "Member",
    "Mode",
    "RdkafkaFamily",
    "Received",
]
