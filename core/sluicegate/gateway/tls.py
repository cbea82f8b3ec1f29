"""TLS contexts for both sides of the gateway."""

import ssl
from collections.abc import Sequence
from dataclasses import dataclass

from sluicegate.config.models import Tls


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
    :raises OSError: if a file is missing, unreadable or no valid PEM (`ssl.SSLError` is an OSError).
    """
    client = broker = server_name = None
    if tls.client is not None:
        client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        client.load_cert_chain(tls.client.cert, tls.client.key)
        if tls.client.client_ca is not None:
            client.load_verify_locations(tls.client.client_ca)
            client.verify_mode = ssl.CERT_REQUIRED
    if tls.broker is not None:
        broker = ssl.create_default_context(cafile=tls.broker.ca)
        if tls.broker.cert is not None:
            broker.load_cert_chain(tls.broker.cert, tls.broker.key)
        server_name = tls.broker.server_name
    for context in (client, broker):
        if context is not None and alpn:
            context.set_alpn_protocols(list(alpn))
    return TlsContexts(client, broker, server_name)
