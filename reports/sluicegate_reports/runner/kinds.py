"""What the runner knows of each kind of broker: one row each."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_CLIENTS = "sluicegate_reports.runner.clients"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of broker."""

    topic: str
    """Form of its topics' full names, of `namespace` and `name`."""
    library: str
    """Distribution of the client library that speaks to it."""
    driver: str
    """Place of that library's driver, as `module:name`."""
    asks_delays: bool = False
    """Whether its clients can ask for a delivery delay."""
    acknowledges_each: bool = True
    """Whether its consumers acknowledge single messages: Kafka's commit offsets."""
    node_ports: bool = False
    """Whether a gate in front of it needs a port for each node."""


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "kafka": Kind(
            "{namespace}.{name}",
            "aiokafka",
            f"{_CLIENTS}.kafka:Driver",
            acknowledges_each=False,
            node_ports=True,
        ),
        "pulsar": Kind(
            "persistent://public/{namespace}/{name}",
            "pulsar-client",
            f"{_CLIENTS}.pulsar:Driver",
            asks_delays=True,
            node_ports=True,
        ),
        "danube": Kind("/{namespace}/{name}", "danube-client", f"{_CLIENTS}.danube:Driver"),
    }
)
"""The kinds of broker that scenarios are played against."""
