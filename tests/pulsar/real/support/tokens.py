"""Logins by token (JWT with a shared secret), for brokers with authentication."""

import base64
import hashlib
import hmac
import json
from typing import Any

_SECRET = b"sluicegate tests: thirty-two bytes or more"
SUPERUSER = "superuser"
"""Who may do all; the broker itself logs in as this role."""


def token(role: str) -> str:
    """A token that lets its bearer in as a role."""
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": role})
    signed = b".".join(_encoded(json.dumps(part).encode()) for part in parts)
    return (signed + b"." + _encoded(hmac.digest(_SECRET, signed, hashlib.sha256))).decode()


def settings() -> dict[str, str]:
    """Lines of broker.conf that ask every client for a token; each role may do what it was granted."""
    plugin = "org.apache.pulsar.client.impl.auth.AuthenticationToken"
    return {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "authenticationProviders": "org.apache.pulsar.broker.authentication.AuthenticationProviderToken",
        "tokenSecretKey": "data:;base64," + base64.b64encode(_SECRET).decode(),
        "superUserRoles": SUPERUSER,
        "brokerClientAuthenticationPlugin": plugin,
        "brokerClientAuthenticationParameters": f"token:{token(SUPERUSER)}",
    }


def bearer(role: str) -> dict[str, str]:
    """Headers of the admin API for a role."""
    return {"Authorization": f"Bearer {token(role)}"}


def login(role: str) -> dict[str, Any]:
    """Fields of CONNECT for a role."""
    return {"auth_method_name": "token", "auth_data": token(role).encode()}


def _encoded(part: bytes) -> bytes:
    return base64.urlsafe_b64encode(part).rstrip(b"=")
