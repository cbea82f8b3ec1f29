"""Login of the gateway's own clients at the brokers. Their requests bypass the gateway itself."""

import ssl
from collections.abc import Callable
from typing import Any

from sluicegate.config.models import BrokerTls
from sluicegate_kafka.cluster.own_clients import REFUSAL, refusal_of
from sluicegate_kafka.config import KafkaConfig

_TIMEOUT_MS = 5_000
_RETRY_MS = 1_000
"""The library's own attempts within one question; by default it logs in ten times a second."""


def login_options(config: KafkaConfig, tls_for: Callable[[BrokerTls], ssl.SSLContext]) -> dict[str, Any]:
    """Options for `own_client`, which makes aiokafka's clients.

    :param config: the cluster; its `identity`, if any, has the gateway's login and
        address.
    :param tls_for: gives the TLS files of a section of the entry.
    :raises TlsFileError: if a file of that section is unusable, and there is no earlier version.
    """
    identity = config.identity
    bootstrap, section = config.bootstrap, config.tls.broker
    if identity is not None:
        bootstrap, section = identity.bootstrap or bootstrap, identity.tls or section
    tls = tls_for(section) if section is not None else None
    by_password = identity is not None and identity.username is not None
    options: dict[str, Any] = {
        "bootstrap_servers": [f"{host}:{port}" for host, port in bootstrap],
        "client_id": "sluicegate",
        "request_timeout_ms": _TIMEOUT_MS,
        "retry_backoff_ms": _RETRY_MS,
        "ssl_context": tls,
        REFUSAL: refusal_of(config),
        "security_protocol": ("SASL_" if by_password else "") + ("SSL" if tls else "PLAINTEXT"),
    }
    if identity is not None and by_password:
        options |= {
            "sasl_mechanism": identity.mechanism,
            "sasl_plain_username": identity.username,
            "sasl_plain_password": identity.password,
        }
    return options
