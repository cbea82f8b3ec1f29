"""The web sites of broker drivers: their listeners, and their access to policies and facts."""

import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from sluicegate.broker import WebServices, WebSite
from sluicegate.config.models import BrokerConfig
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import Level
from sluicegate.net.background import BackgroundTasks
from sluicegate.net.http import HttpServer
from sluicegate.net.listening.sockets import Inherited
from sluicegate.net.tls import TlsFiles
from sluicegate.runtime.changing import Wanted, wanted_for
from sluicegate.runtime.plugins import Plugins
from sluicegate.store import Author


class PolicyOwner(Protocol):
    """What the supervisor has of all brokers, by a broker's name."""

    def resolver(self, broker: str, /) -> Resolver:
        """The policies in force."""

    def facts(self, broker: str, /) -> Mapping[str, str]:
        """What the broker's front keeps."""

    async def change(self, wanted: Sequence[Wanted], author: Author, /) -> int:
        """Set policies in the store."""


class SupervisedServices:
    """A `broker.WebServices` of one broker, from the supervisor.

    :param owner: the supervisor.
    :param config: the broker's entry.
    :param tls: its TLS files.
    """

    def __init__(self, owner: PolicyOwner, config: BrokerConfig, tls: TlsFiles) -> None:
        self._owner = owner
        self._broker = config.name
        self._tls = tls

    @property
    def resolver(self) -> Resolver:
        """The policies now in force."""
        return self._owner.resolver(self._broker)

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """The TLS files for connections to the broker."""
        return self._tls.broker

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts that the broker's front keeps under a prefix."""
        facts = self._owner.facts(self._broker)
        return {key: value for key, value in facts.items() if key.startswith(prefix)}

    async def change(self, level: Level, name: str, changes: Mapping[str, object], actor: str) -> None:
        """Set policies of this broker in the store."""
        await self._owner.change(wanted_for(self._broker, level, name, changes), Author(actor))


class WebListener:
    """The listener of one broker's web site.

    :param config: the broker's entry.
    :param site: what it serves.
    :param tls: its TLS files.
    :param inherited: listening sockets of a process before.
    :raises OSError: if its address is not available or a TLS file cannot be read.
    """

    def __init__(
        self, config: BrokerConfig, site: WebSite, tls: TlsFiles, inherited: Inherited | None = None
    ) -> None:
        self.broker = config.name
        self._site = site
        host, port = site.address
        self._tls = tls
        shown = tls.open().client
        name = f"web of broker {config.name!r}"
        self.server = HttpServer(site, host, port, name, shown, inherited=inherited)
        self._secure = shown is not None
        self._tasks = BackgroundTasks(name)

    @property
    def url(self) -> str:
        """The URL of the site."""
        host, port = self.server.address
        return f"{'https' if self._secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"

    def start(self) -> None:
        """Begin to serve."""
        self.server.start()
        self._tasks.spawn(self._tls.watch())
        self._tasks.spawn(self._site.watch())

    def renew_tls(self) -> None:
        """Read the TLS files now, even if they look unchanged."""
        self._tls.renew()

    async def stop(self) -> None:
        """Stop serving."""
        await self._tasks.cancel()
        await self.server.stop()
        await self._site.close()


def open_listener(
    plugins: Plugins,
    config: BrokerConfig,
    services: Callable[[BrokerConfig, TlsFiles], WebServices],
    inherited: Inherited | None = None,
) -> WebListener | None:
    """Open the listener of a broker's web site; None if its driver has none, or its entry asks for none.

    :param inherited: listening sockets of a process before.
    :raises OSError: if its address is not available or a TLS file cannot be read.
    """
    # The worker, which has the same certificates, warns of their expiry.
    tls = TlsFiles(config.tls, sections=config.tls_sections(), warns=False)
    site = plugins.drivers[config.system].web(config, services(config, tls))
    return WebListener(config, site, tls, inherited) if site is not None else None
