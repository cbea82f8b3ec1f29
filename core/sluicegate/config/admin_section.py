"""The `admin:` section of the configuration file."""

from collections import Counter
from typing import Literal, TypeAlias

from pydantic import Field, field_validator, model_validator

from sluicegate.config.strict import Strict
from sluicegate.config.tls_models import AdminTls
from sluicegate.config.units import Host, ListenPort, refuse

Scope: TypeAlias = Literal["read", "write", "metrics"]
"""What a caller of the admin endpoint may do; `write` contains `read`, and `read` contains `metrics`."""


class AdminCaller(Strict):
    """Who may use the admin API, with a bearer token or with a TLS certificate."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")
    """Who it is, for the history."""
    sha256: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    """SHA-256 of the token in hex, such as of `openssl rand -hex 32`, so that the file holds no secret."""
    certificate: str | None = Field(default=None, pattern=r"^[^=\s]+=", max_length=1_000)
    """Instead of sha256: subject of the client certificate, as `openssl x509 -noout -subject -nameopt
    RFC2253` prints it, such as `CN=ops,O=Example`."""
    scope: Scope = "read"
    """read: see policies and state; write: change them, too; metrics: only /metrics."""

    @model_validator(mode="after")
    def _one_of_both(self) -> "AdminCaller":
        if (self.sha256 is None) == (self.certificate is None):
            what = "neither 'sha256' nor" if self.sha256 is None else "both 'sha256' and"
            raise refuse(f"{self.name!r} has {what} 'certificate'", "write one of the two")
        return self


class Admin(Strict):
    """The administrative HTTP endpoint: /metrics, /livez, /readyz, and the admin API under /api."""

    host: Host = "127.0.0.1"
    """Address to listen on."""
    port: ListenPort = 9095
    """Port to listen on; 0 takes a free one."""
    allowed_hosts: tuple[Host, ...] = ()
    """Names by which clients may ask, besides localhost, `host` and all IP addresses. A request by another
    name gets 421, which keeps foreign web pages out (DNS rebinding)."""
    tls: AdminTls | None = None
    """TLS of the endpoint; plain HTTP if unset."""
    callers: tuple[AdminCaller, ...] = ()
    """Who may use the admin API, by bearer token or client certificate. Without one, processes of this host
    may read; only commands of the gateway's own user may write."""

    @field_validator("callers")
    @classmethod
    def _unique_names(cls, callers: tuple[AdminCaller, ...]) -> tuple[AdminCaller, ...]:
        for name, count in Counter(caller.name for caller in callers).items():
            if count > 1:
                raise refuse(f"{name!r} is named twice", "give each caller a name of its own")
        return callers

    @model_validator(mode="after")
    def _certificates_need_an_authority(self) -> "Admin":
        named = next((caller.name for caller in self.callers if caller.certificate is not None), None)
        if named is not None and (self.tls is None or self.tls.client_ca is None):
            remedy = "name its authority as admin.tls.client_ca"
            raise refuse(f"nothing verifies the client certificate of {named!r}", remedy)
        return self
