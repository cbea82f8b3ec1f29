"""State that all topics of a broker share."""

from sluicegate.engine.client_totals import Clients
from sluicegate.engine.held import HeldOperations


class BrokerState:
    """The clients of one broker, and what is held of them now."""

    __slots__ = ("clients", "held")

    def __init__(self) -> None:
        self.clients = Clients()
        self.held = HeldOperations()
