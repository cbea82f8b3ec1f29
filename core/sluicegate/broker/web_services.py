"""The web site of a broker, and what the gateway offers it."""

import ssl
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Protocol, TypeAlias

from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import Level


class PolicyRefusedError(Exception):
    """A policy cannot be set because it is unknown or its value is invalid."""


class PolicyUnavailableError(Exception):
    """A policy cannot be set now because the store cannot be written."""


class WebServices(Protocol):
    """What the gateway offers a broker's web site, which runs in the supervisor, apart from the relays."""

    @property
    def resolver(self) -> Resolver:
        """The policies now in force, file and store merged; a new object after each change."""

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """TLS for the broker's TLS addresses; None if the file does not configure any."""

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts of the broker's front under a prefix."""

    async def change(self, level: Level, name: str, changes: Mapping[str, object], actor: str) -> None:
        """Set policies of this broker in the store.

        Returns once they are in force here and were sent to the workers.

        :param name: namespace or topic.
        :param changes: values by field, in base units or with units; None removes a field.
        :param actor: the author, for the history.
        :raises PolicyRefusedError: if a value is invalid; nothing is changed then.
        :raises PolicyUnavailableError: if the store cannot be written.
        """


Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class WebSite(Protocol):
    """An ASGI application (HTTP only) that a broker's driver serves besides the broker's protocol."""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on; port 0 takes a free one. It uses TLS if the broker's listeners do."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""

    async def watch(self) -> None:
        """Do what it does by itself, until cancelled; may return at once."""

    async def close(self) -> None:
        """Close its connections to the broker."""
