"""Bounds on what the clients of one broker may use."""

import resource
from contextlib import suppress
from dataclasses import dataclass

from sluicegate.config import BrokerConfig

_MS = 1_000_000
_SPARE_DESCRIPTORS = 128
"""For listeners, logs, the store and plugins."""
_HANDSHAKE_S = 10.0


def raise_descriptor_limit() -> int:
    """Allow this process as many descriptors as the system lets it have.

    :return: the limit now in force.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # A sandbox may forbid it, or name a hard limit that the kernel does not grant: then the soft one
        # holds.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what clients may use; times in ns."""

    max_connections: int
    idle_ns: int
    frame_ns: int
    buffer_bytes: int
    answer_s: float
    dial_s: float = 5.0
    """For each address of the broker."""
    handshake_s: float = _HANDSHAKE_S
    """For TLS."""
    linger_ns: int = 5_000_000_000
    """How long a closed connection may take to send queued bytes."""
    login_ns: int = 0
    """For the first request and a login; 0 for no limit."""
    address_share: float = 1.0
    """Share of the places that clients of one address may take."""
    principal_share: float = 1.0
    connections_of_all: int = 0
    """The most clients of all workers of a broker together; 0 if only each process has its bound."""

    @classmethod
    def of(cls, config: BrokerConfig) -> "Limits":
        """Limits as configured; without `max_connections`, half of the descriptors are for clients."""
        descriptors = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        login_s = config.login_timeout / 1000
        return cls(
            max_connections=config.max_connections or max(1, (descriptors - _SPARE_DESCRIPTORS) // 2),
            idle_ns=config.idle_timeout * _MS,
            frame_ns=config.frame_timeout * _MS,
            buffer_bytes=config.buffer_budget,
            answer_s=config.max_hold / 1000,
            handshake_s=min(_HANDSHAKE_S, login_s or _HANDSHAKE_S),
            login_ns=config.login_timeout * _MS,
            address_share=config.address_share,
            principal_share=config.principal_share,
            connections_of_all=config.max_connections,
        )
