"""What a DescribeConfigs response says."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from aiokafka.errors import for_code

from sluicegate_kafka.codec import errors

_OF_TOPIC = 1
"""Source of a topic's own config; 2 to 4 come from brokers, 5 is the default."""


class Config(NamedTuple):
    """One config of a topic or a broker."""

    name: str
    value: str
    is_own: bool
    """True if it is set here, and is not a default of the level above."""


def configs_of(resources: Iterable[Any]) -> Iterator[tuple[str, list[Config]]]:
    """Read the resources of a DescribeConfigs response: each one's name and its configs with a value.

    :raises aiokafka.errors.KafkaError: if one of them is refused.
    """
    for code, message, _, name, entries in resources:
        if code != errors.NONE:
            raise for_code(code)(f"{name}: {message or for_code(code).__name__}")
        yield (
            name,
            [
                Config(key, value, source == _OF_TOPIC)
                for key, value, _, source, *_ in entries
                if value is not None
            ],
        )
