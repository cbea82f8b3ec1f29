"""How comparison runs play each kind of broker, one row each. Code is named as `module:name`."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

_CLIENTS = "sluicegate_reports.runner.clients"
_PREPARING = "sluicegate_reports.runner.preparing"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of broker."""

    topic: str
    """Form of its topics' full names, of `namespace` and `name`."""
    library: str
    """Distribution of the client library that speaks to it."""
    driver: str
    """Import path of that library's driver, as `module:name`, see `runner.clients.base.ClientDriver`."""
    prepare: str = ""
    """Import path of a coroutine that creates an arm's topics, as `module:name`; empty if they need not
    be created. Its parameters are those of `runner.preparing.prepare_topics`."""
    asks_delays: bool = False
    """Whether its clients can ask for a delivery delay."""
    acknowledges_each: bool = True
    """Whether its consumers acknowledge single messages: Kafka's commit offsets."""
    node_ports: bool = False
    """Whether a gateway in front of it needs a port for each node."""


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "kafka": Kind(
            "{namespace}.{name}",
            "aiokafka",
            f"{_CLIENTS}.kafka:Driver",
            f"{_PREPARING}:kafka",
            acknowledges_each=False,
            node_ports=True,
        ),
        "pulsar": Kind(
            "persistent://public/{namespace}/{name}",
            "pulsar-client",
            f"{_CLIENTS}.pulsar:Driver",
            f"{_PREPARING}:pulsar",
            asks_delays=True,
            node_ports=True,
        ),
        "danube": Kind(
            "/{namespace}/{name}", "danube-client", f"{_CLIENTS}.danube:Driver", f"{_PREPARING}:danube"
        ),
    }
)
"""The kinds of broker that come with the product."""
