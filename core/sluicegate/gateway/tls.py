"""TLS contexts for both sides of the gateway."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from sluicegate.config.models import Tls
from sluicegate.config.tls import context_for_broker, context_for_clients


@dataclass(frozen=True, slots=True)
class TlsContexts:
    """What to speak with clients and with the broker; None is plain text."""

    client: ssl.SSLContext | None = None
    broker: ssl.SSLContext | None = None
    server_name: str | None = None
    """Name that the broker's certificate must show; the host connected to if None."""


def tls_contexts(tls: Tls, alpn: Sequence[str] = ()) -> TlsContexts:
    """Read certificates and keys.

    :param alpn: protocols to agree on by name (RFC 7301), such as `h2`; most broker protocols use none.
    :raises TlsFileError: if a file cannot be used.
    """
    client = context_for_clients(tls.client) if tls.client is not None else None
    broker = context_for_broker(tls.broker) if tls.broker is not None else None
    for context in (client, broker):
        if context is not None and alpn:
            context.set_alpn_protocols(list(alpn))
    return TlsContexts(client, broker, tls.broker.server_name if tls.broker is not None else None)
