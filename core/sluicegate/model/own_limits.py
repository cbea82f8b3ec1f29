"""What brokers say of their own limits, in the words of the gateway's policies.

A broker's driver reads them (`broker.BaseDriver.own_settings`); `sluicegate import` makes a policy file
of them, and `sluicegate drift` compares them with the policies in force.
"""

import ssl
from dataclasses import dataclass, field
from typing import Any, Protocol

from sluicegate.model import Level, PolicyValue


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSetting:
    """One setting of a broker, at one of its levels."""

    level: Level
    name: str = ""
    """Namespace or topic as the broker names it; empty at the broker level."""
    field: str = ""
    """The policy that sets the same; empty if there is none, and `notes` say why."""
    value: PolicyValue = 0
    """In base units of that policy; 0 is unlimited, or no delay, as there."""
    origin: str
    """Where the broker has it: `topic config max.message.bytes`."""
    text: str
    """The value as the broker writes it."""
    notes: tuple[str, ...] = ()
    """How it was converted, or why it was not; a sentence each."""
    principal: str = ""
    """The only principal for which it holds; empty if it holds for all."""
    is_enforced: bool = True
    """False if the broker has the setting and does not act on it."""
    is_bound: bool = False
    """True if no lower level of the broker can exceed it; otherwise the lowest level that sets it holds."""


@dataclass(frozen=True, slots=True)
class OwnSettings:
    """All that one broker says."""

    settings: tuple[OwnSetting, ...] = ()
    gaps: tuple[str, ...] = field(default=())
    """What could not be read, each with the reason; empty if everything was."""


class OwnSettingsError(Exception):
    """A broker cannot be asked for its settings.

    :param text: why, without secrets.
    :param remedy: what to do.
    """

    def __init__(self, text: str, remedy: str) -> None:
        super().__init__(text)
        self.text = text
        self.remedy = remedy


class BrokerTlsFiles(Protocol):
    """TLS for the gateway's own connections to a broker, as its entry configures it."""

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """TLS for the broker's TLS addresses; None if the entry does not configure any."""

    def tls_for(self, section: Any) -> ssl.SSLContext:
        """TLS as a section of the entry configures it, such as that of the gateway's own login.

        :param section: a `sluicegate.config.models.BrokerTls`, one of the entry's `tls_sections`.
        :raises OSError: if a file cannot be used.
        """
