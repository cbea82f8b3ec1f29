"""What a worker does when its own memory runs short: a section of a broker's entry."""

from pydantic import Field, model_validator

from sluicegate.config.strict import Strict
from sluicegate.config.units import Share, StorageSize, refuse


class OverloadConfig(Strict):
    """Shares of the memory limit from which on a worker protects itself."""

    memory_limit: StorageSize = Field(
        default=0,
        description="Bytes of resident memory that this broker's worker may have; 0 for the limit of its "
        "control group, or else the memory of the machine.",
    )
    stop_accepting: Share = Field(
        default=0.8, description="Share of the limit from which on new clients are turned away."
    )
    shrink: Share = Field(
        default=0.85,
        description="Share from which on `buffer_budget` is halved, and idle gates and free memory are "
        "given back.",
    )
    close: Share = Field(
        default=0.95, description="Share from which on the clients that keep most are closed, each second."
    )

    @model_validator(mode="after")
    def _in_order(self) -> "OverloadConfig":
        if not self.stop_accepting <= self.shrink <= self.close:
            raise refuse(
                f"stop_accepting {self.stop_accepting:g}, shrink {self.shrink:g} and close {self.close:g} "
                "are not in order",
                "let none be above the next",
            )
        return self
