"""The protocols that sessions can be fuzzed with."""

from collections.abc import Mapping

from tests.fuzz.danube import DanubeFuzz
from tests.fuzz.epoch import MakeFront
from tests.fuzz.kafka import KafkaFuzz
from tests.fuzz.pulsar import PulsarFuzz

PROTOCOLS: Mapping[str, MakeFront] = {"kafka": KafkaFuzz, "pulsar": PulsarFuzz, "danube": DanubeFuzz}
