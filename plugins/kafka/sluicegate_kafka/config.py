"""What a Kafka entry under `brokers:` may say."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sluicegate.config.models import BrokerConfig, Strict
from sluicegate.config.units import Duration


class Identity(Strict):
    """The gate's own login at the broker, for the questions it asks itself; clients never use it."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="PLAIN", description="SASL mechanism."
    )
    username: str = Field(min_length=1, description="User name.")
    password: str = Field(min_length=1, description="Password; better set by environment than in the file.")


class KafkaConfig(BrokerConfig):
    """One Kafka cluster."""

    storage_sources: ClassVar[frozenset[str]] = BrokerConfig.storage_sources | {"log_dirs", "snapshots"}
    publishes_snapshots: ClassVar[bool] = True

    system: Literal["kafka"] = Field(description="Kind of broker.")
    node_port_base: Annotated[int, Field(ge=1, le=65_535, strict=True)] | None = Field(
        default=None,
        description="Clients reach broker N at this port + N; the listening port + 1 if unset.",
    )
    namespace_separator: str = Field(
        default=".",
        max_length=1,
        description="The part of a topic's name before it is its namespace; empty: all are in 'default'.",
    )
    producer_idle: Duration = Field(
        default=600_000, gt=0, description="A producer that has not published for this long no longer counts."
    )
    identity: Identity | None = Field(
        default=None, description="Login for the gate's own questions (group listing, nodes); none if unset."
    )

    @property
    def first_node_port(self) -> int:
        """The port of broker 0."""
        return self.node_port_base if self.node_port_base is not None else self.listen.port + 1
