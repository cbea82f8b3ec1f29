"""What the gateway offers a broker front."""

import ssl
from collections.abc import Coroutine, Mapping
from typing import Any, Protocol

from sluicegate.broker.commands import Listener
from sluicegate.engine.budget import Budget
from sluicegate.engine.gates import GateCache
from sluicegate.model import PolicySet

UNIQUE_FACT = "broker."
"""Key prefix of facts (`Services.remember`) that belong to the first gateway or worker that writes them.

The other workers of the broker hear of them by `BaseFront.heard`, with this prefix as the kind, and `key` and
`value` as the content. So does one that was not the first: it is told what the first one wrote.
"""


class Services(Protocol):
    """What the gateway offers a broker front."""

    @property
    def gates(self) -> GateCache:
        """Compiled gates by topic."""

    @property
    def policies(self) -> PolicySet:
        """The policies now in force; a new object after each change."""

    @property
    def budget(self) -> Budget:
        """Limits the bytes that all sessions of this gateway hold together."""

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """TLS of a front's own connections to the broker; None for plain text.

        It can be kept: each new connection uses the current content of the files.
        """

    @property
    def broker_tls_renewals(self) -> int:
        """How often its files were read anew; for client libraries that take files and no context."""

    def tls_for(self, section: Any) -> ssl.SSLContext:
        """TLS as a section of the entry configures it, such as that of a front's own login; can be kept, too.

        :param section: a `BrokerTls`, one of the entry's `tls_sections`. If it has a `server_name`, its
            connections use that name instead of the host's.
        :raises OSError: if a file cannot be used, and none could be before.
        """

    def wall_ms(self, now_ns: int) -> int:
        """Wall-clock milliseconds since 1970 at a monotonic time; never ahead of the machine's clock."""

    async def listen(self, listener: Listener) -> None:
        """Open a listener and wait until it accepts. Opening the same one again has no effect."""

    def stop_listening(self, name: str) -> None:
        """Close the listener of this name, if there is one; its clients stay connected."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run work of the front in the background; errors are logged, and shutdown cancels it."""

    def remember(self, key: str, value: str) -> None:
        """Keep a small fact, such as a broker's node address, across restarts; an empty value forgets it."""

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts kept under a prefix."""

    @property
    def siblings(self) -> int:
        """How many other workers serve the same broker."""

    def tell_siblings(self, kind: str, content: Mapping[str, Any]) -> None:
        """Tell the other workers of the broker something small, by `BaseFront.heard`; it may be lost.

        :param kind: tells it from what else the front tells.
        :param content: as JSON has it.
        """
