"""Entries whose brokers have a port each at the gate, beside the one that all clients know."""

from typing import Annotated, Self, TypeAlias

from pydantic import Field, model_validator

from sluicegate.config.models import BrokerConfig
from sluicegate.config.units import refuse

FirstPort: TypeAlias = Annotated[int, Field(ge=1, le=65_535, strict=True)]


class NodePortsConfig(BrokerConfig):
    """What such an entry says of these ports."""

    node_port_base: FirstPort | None = Field(
        default=None,
        description="First of the ports that stand for single brokers; the listening port + 1 if unset.",
    )

    @property
    def first_node_port(self) -> int:
        """The port of the first broker."""
        return self.node_port_base if self.node_port_base is not None else self.listen.port + 1

    @property
    def leads_to_nodes(self) -> bool:
        """Whether clients are led to ports of single brokers."""
        return True

    @model_validator(mode="after")
    def _node_ports_begin_somewhere(self) -> Self:
        """A listener on any free port has no next port."""
        if self.leads_to_nodes and not self.listen.port and self.node_port_base is None:
            raise refuse(
                "'listen.port' is 0, so nothing says where the ports of single brokers begin",
                "set 'node_port_base' to the first of a range of free ports, or 'listen.port' to a port",
            )
        return self
