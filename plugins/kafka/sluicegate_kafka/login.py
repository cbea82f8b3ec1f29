"""How the gate logs in at the brokers for its own questions, which never pass through the gate itself."""

import ssl
from typing import Any

from sluicegate.config.tls import context_for_broker
from sluicegate_kafka.config import KafkaConfig

_TIMEOUT_MS = 5_000


def login_options(config: KafkaConfig, tls: ssl.SSLContext | None) -> dict[str, Any]:
    """What aiokafka's clients are made with.

    :param config: the cluster; its `identity`, if there is one, says who the gate is and where it connects.
    :param tls: what the entry's `tls.broker` says; None is plain text.
    :raises TlsFileError: if a file of the identity's own certificate cannot be used.
    """
    identity = config.identity
    bootstrap = config.bootstrap
    if identity is not None:
        bootstrap = identity.bootstrap or bootstrap
        if identity.tls is not None:
            tls = context_for_broker(identity.tls)
    by_password = identity is not None and identity.username is not None
    options: dict[str, Any] = {
        "bootstrap_servers": [f"{host}:{port}" for host, port in bootstrap],
        "client_id": "sluicegate",
        "request_timeout_ms": _TIMEOUT_MS,
        "ssl_context": tls,
        "security_protocol": ("SASL_" if by_password else "") + ("SSL" if tls else "PLAINTEXT"),
    }
    if identity is not None and by_password:
        options |= {
            "sasl_mechanism": identity.mechanism,
            "sasl_plain_username": identity.username,
            "sasl_plain_password": identity.password,
        }
    return options
