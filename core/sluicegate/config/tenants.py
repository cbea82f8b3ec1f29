"""The quotas of tenants in a broker's entry."""

from typing import Self

from pydantic import Field, model_validator

from sluicegate.config.strict import Strict
from sluicegate.config.units import ByteRate, MessageRate, refuse


class TenantQuota(Strict):
    """One budget for the topics of some namespaces, and for what some principals do elsewhere."""

    name: str = Field(min_length=1, max_length=100)
    """Name of the tenant, for texts and metrics."""
    namespaces: tuple[str, ...] = ()
    """Its namespaces; `*` stands for any characters."""
    principals: tuple[str, ...] = ()
    """Its principals, exactly as the broker names them; `*` stands for any characters."""
    publish_messages: MessageRate = 0
    """Messages per second that it can publish; 0 is unlimited."""
    publish_bytes: ByteRate = 0
    """Bytes per second that it can publish; 0 is unlimited."""
    consume_messages: MessageRate = 0
    """Messages per second that it can consume; 0 is unlimited."""
    consume_bytes: ByteRate = 0
    """Bytes per second that it can consume; 0 is unlimited."""

    @property
    def limits_consuming(self) -> bool:
        """Whether anything is limited that its consumers do."""
        return bool(self.consume_messages or self.consume_bytes)

    @model_validator(mode="after")
    def _names_somebody(self) -> Self:
        if not self.namespaces and not self.principals:
            raise refuse(f"tenant {self.name!r} has no members", "set 'namespaces' or 'principals'")
        return self
