"""The `overload` section of a broker's entry: how a worker reacts when its memory runs short."""

from pydantic import model_validator

from sluicegate.config.strict import Strict
from sluicegate.config.units import Share, StorageSize, refuse


class OverloadConfig(Strict):
    """Shares of the memory limit at which a worker takes each measure."""

    memory_limit: StorageSize = 0
    """Bytes of resident memory that this broker's worker may have; 0 for the limit of its control group, or
    else the memory of the machine."""
    stop_accepting: Share = 0.8
    """Share of the limit from which new clients are refused."""
    shrink: Share = 0.85
    """Share from which `buffer_budget` is halved, idle gates are dropped and free memory is returned to the
    system."""
    close: Share = 0.95
    """Share from which the clients that hold the most memory are disconnected, every second."""

    @model_validator(mode="after")
    def _in_order(self) -> "OverloadConfig":
        if not self.stop_accepting <= self.shrink <= self.close:
            raise refuse(
                f"stop_accepting {self.stop_accepting:g}, shrink {self.shrink:g} and close {self.close:g} "
                "are not in order",
                "let each be at most the next",
            )
        return self
