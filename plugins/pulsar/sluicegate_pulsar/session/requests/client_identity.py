"""The client of one connection: who it is, and what it can do."""

from sluicegate.model import ANONYMOUS


class Client:
    """One client.

    :param peer: its address, `host:port`.
    """

    __slots__ = ("exempt", "is_proxied", "is_ready", "peer", "principal", "version")

    def __init__(self, peer: str) -> None:
        self.peer = peer
        self.principal = ANONYMOUS
        """Set only after the broker accepted it."""
        self.exempt = False
        """Whether the principal skips counts, rates and factors."""
        self.version = ""
        """The client library and its version, as it says itself, such as `Pulsar-CPP-v4.2.0`."""
        self.is_proxied = False
        """True if it asked for a certain broker: it follows lookups through the one address of the gateway
        (`proxy_through_service_url`)."""
        self.is_ready = False
        """True once the broker has accepted it."""

    @property
    def label(self) -> str:
        """Client library and peer address, which identify this client in log lines."""
        return f"{self.version}@{self.peer}"

    def introduced(self, version: str) -> None:
        """It has said which library it is."""
        self.version = version

    def names_broker(self) -> None:
        """It has asked for a certain broker."""
        self.is_proxied = True

    def accepted(self, principal: str, *, exempt: bool) -> None:
        """The broker has accepted it."""
        self.is_ready, self.principal, self.exempt = True, principal, exempt

    def policies_changed(self, *, exempt: bool) -> None:
        """The policies say anew whether it is exempt."""
        self.exempt = exempt
