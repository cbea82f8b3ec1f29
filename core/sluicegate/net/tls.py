"""TLS contexts for both sides of the gateway, renewed when their files change."""

import asyncio
import logging
import ssl
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Any

from sluicegate.config.models import BrokerConfig, BrokerTls, ClientTls, Tls
from sluicegate.config.tls import TlsFileError, TlsSection
from sluicegate.net.expiry import ExpiryWarnings
from sluicegate.net.renewal import Look, Renewal

log = logging.getLogger(__name__)

_LOOK_S = 1.0
"""How often the files are checked."""


@dataclass(frozen=True, slots=True)
class TlsContexts:
    """TLS towards clients and towards the broker; None is plain text."""

    client: ssl.SSLContext | None = None
    broker: ssl.SSLContext | None = None
    server_name: str | None = None
    """Name that the broker's certificate must show; the host connected to if None."""


class TlsFiles:
    """The TLS contexts of one broker's entry; each can be kept, as its new connections use the newest files.

    :param tls: the entry's `tls` section.
    :param alpn: protocols to agree on by name (RFC 7301), such as `h2`; most broker protocols use none.
    :param sections: all sections of the entry that name TLS files, each after its keys.
    :param warns: whether the log warns of certificates that are about to expire.
    """

    def __init__(
        self,
        tls: Tls,
        alpn: Sequence[str] = (),
        sections: Iterable[tuple[Sequence[str], TlsSection]] = (),
        *,
        warns: bool = True,
    ) -> None:
        self._tls = tls
        self._alpn = alpn
        self._names = {section: ".".join(keys) for keys, section in sections}
        self._renewals: dict[TlsSection, Renewal] = {}
        self._lock = Lock()
        before = tls.warn_before if warns else ()
        self._warnings = ExpiryWarnings(timedelta(milliseconds=each) for each in before)
        self._asked = asyncio.Event()

    @classmethod
    def of_entry(cls, config: BrokerConfig) -> "TlsFiles":
        """The TLS files of a broker's entry."""
        return cls(config.tls, config.alpn, config.tls_sections())

    @classmethod
    def of_clients(cls, section: ClientTls, keys: Sequence[str]) -> "TlsFiles":
        """The TLS files of one section towards clients.

        :param keys: of the section in the file.
        """
        return cls(Tls(client=section), sections=[(keys, section)])

    def open(self) -> TlsContexts:
        """Read what the `tls` section names.

        :raises OSError: if a file cannot be used, mostly a `TlsFileError`.
        """
        tls = self._tls
        client = self._context(tls.client) if tls.client is not None else None
        return TlsContexts(client, self.broker, tls.broker.server_name if tls.broker is not None else None)

    @property
    def broker(self) -> ssl.SSLContext | None:
        """TLS towards the broker; for any thread.

        :raises OSError: if a file cannot be used and none was before.
        """
        return self._context(self._tls.broker) if self._tls.broker is not None else None

    @property
    def broker_renewals(self) -> int:
        """How often the files of `broker` were read anew."""
        section = self._tls.broker
        return 0 if section is None else self._renewal(section).context.renewals

    def context_for(self, section: BrokerTls) -> ssl.SSLContext:
        """TLS as a section of the entry says, including `server_name`; for any thread.

        :raises OSError: if a file cannot be used and none was before.
        """
        return self._renewal(section).context.asking_for(section.server_name)

    async def watch(self) -> None:
        """Look at the files once a second, off the event loop."""
        if not self._names:
            return
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._asked.wait()
            force = self._asked.is_set()
            self._asked.clear()
            try:
                await asyncio.to_thread(self.look, datetime.now(UTC), force=force)
            except Exception as error:  # nothing may end the watch; what is in force stays
                log.exception("TLS files could not be looked at: %s", error)

    def renew(self) -> None:
        """Have `watch` read the files now, even if they look unchanged."""
        self._asked.set()

    def look(self, now: datetime, *, force: bool = False) -> None:
        """Read files that changed, and warn of certificates that are about to expire; this blocks.

        :param force: read files even if they look unchanged.
        """
        for name, renewal in self._opened():
            outcome = renewal.look(force)
            if outcome is Look.RENEWED:
                paths = [expiry.path for expiry in renewal.expiries]
                log.info("TLS files read again", extra={"section": name, "files": paths})
            elif outcome is Look.BROKEN and renewal.problem is not None:
                _log_problem(name, renewal.problem)
            self._warnings.look(name, renewal.expiries, now)

    def snapshot(self) -> list[dict[str, Any]]:
        """Figures of each section in use for the metrics, as JSON."""
        return [
            {
                "section": name,
                "successful": renewal.problem is None,
                "renewals": renewal.context.renewals,
                "not_after": [
                    (expiry.key, expiry.path, expiry.ends.timestamp()) for expiry in renewal.expiries
                ],
            }
            for name, renewal in self._opened()
        ]

    def _opened(self) -> Iterable[tuple[str, Renewal]]:
        # A copy: another thread may open a section meanwhile.
        return [(self._names.get(section, "tls"), each) for section, each in tuple(self._renewals.items())]

    def _context(self, section: TlsSection) -> ssl.SSLContext:
        return self._renewal(section).context

    def _renewal(self, section: TlsSection) -> Renewal:
        with self._lock:
            # Threads may ask for a section at once: all get the one context whose files are watched.
            renewal = self._renewals.get(section)
            if renewal is None:
                renewal = self._renewals[section] = Renewal(section, self._alpn)
            return renewal


def _log_problem(section: str, problem: OSError) -> None:
    key, text, remedy = section, str(problem), "check the file"
    if isinstance(problem, TlsFileError):
        key, text, remedy = f"{section}.{problem.key}", problem.problem, problem.remedy
    log.error(
        "%s: %s; %s. The last good files stay in use, and these are tried again when they change",
        key,
        text,
        remedy,
    )


class OwnTlsFiles:
    """TLS of a broker's entry for a single command, a `sluicegate.model.own_limits.BrokerTlsFiles`.

    :param config: the entry.
    """

    def __init__(self, config: BrokerConfig) -> None:
        self._files = TlsFiles.of_entry(config)

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """TLS towards the broker.

        :raises OSError: if a file cannot be used.
        """
        return self._files.broker

    def tls_for(self, section: BrokerTls) -> ssl.SSLContext:
        """TLS as a section of the entry says.

        :raises OSError: if a file cannot be used.
        """
        return self._files.context_for(section)
