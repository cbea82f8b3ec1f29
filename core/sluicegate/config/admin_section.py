"""The `admin:` section of the configuration file."""

from collections import Counter
from typing import Literal, TypeAlias

from pydantic import Field, field_validator

from sluicegate.config.strict import Strict
from sluicegate.config.units import Host, ListenPort, refuse

Scope: TypeAlias = Literal["read", "write", "metrics"]
"""What a caller of the admin endpoint may do; `write` contains `read`, and `read` contains `metrics`."""


class AdminCaller(Strict):
    """Who may use the admin API with a bearer token."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$", description="Who it is, for the history.")
    sha256: str = Field(
        pattern=r"^[0-9a-f]{64}$",
        description="SHA-256 of the token in hex, such as of `openssl rand -hex 32`, so that the file holds "
        "no secret.",
    )
    scope: Scope = Field(
        default="read",
        description="read: see policies and state; write: change them, too; metrics: only /metrics.",
    )


class Admin(Strict):
    """The administrative HTTP endpoint: /metrics, /livez, /readyz, and the admin API under /api."""

    host: Host = Field(default="127.0.0.1", description="Address to listen on.")
    port: ListenPort = Field(default=9095, description="Port to listen on; 0 takes a free one.")
    allowed_hosts: tuple[Host, ...] = Field(
        default=(),
        description="Names by which clients may ask, besides localhost, `host` and all IP addresses. A "
        "request by another name gets 421, which keeps foreign web pages out (DNS rebinding).",
    )
    callers: tuple[AdminCaller, ...] = Field(
        default=(),
        description="Who may use the admin API with a bearer token. Without one, processes of this host "
        "may read; only commands of the gateway's own user may write.",
    )

    @field_validator("callers")
    @classmethod
    def _unique_names(cls, callers: tuple[AdminCaller, ...]) -> tuple[AdminCaller, ...]:
        for name, count in Counter(caller.name for caller in callers).items():
            if count > 1:
                raise refuse(f"{name!r} is named twice", "give each caller a name of its own")
        return callers
