"""The producers and consumers that one client has open."""

from time import monotonic_ns

from sluicegate.client.open_policies import OpenPolicies
from sluicegate.client.policed_client import PolicedClient

_MS = 1_000_000
SEND_TIMEOUT_MS = 30_000
"""The client's `send_timeout_millis` if unset."""


class Opened:
    """Those of one client.

    :param policies: of the client; they are closed with it.
    :param principal: whom it logs in as.
    """

    def __init__(self, policies: OpenPolicies, principal: str) -> None:
        self._policies = policies
        self._principal = principal
        self._clients: list[PolicedClient] = []

    def new(self, name: str | None, patience_ms: int | None = None) -> PolicedClient:
        """A producer or consumer that is opened.

        :param name: its own, if it has one.
        :param patience_ms: how long its operations may be held; None or 0 for any time.
        """
        patience_ns = patience_ms * _MS if patience_ms else None
        policed = PolicedClient(self._policies.engine, self._principal, name or "", patience_ns)
        self._clients = [each for each in self._clients if not each.is_ended] + [policed]
        return policed

    def close(self) -> None:
        """The client is closed: so are its producers and consumers, without a call."""
        for policed in self._clients:
            policed.end(monotonic_ns())
        self._policies.close()
