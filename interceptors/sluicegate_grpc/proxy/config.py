"""The options of any gRPC broker's entry under `brokers:`.

It can be imported without the extra `grpc`, so that a file can still be read.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar, get_args

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from sluicegate.config.models import BrokerConfig, Strict
from sluicegate.config.units import Duration, refuse
from sluicegate.model import SizeOf, UnknownRule
from sluicegate_grpc.proxy.edits import why_not

if TYPE_CHECKING:
    from sluicegate_grpc.proxy.splice import Limits

_Count = Annotated[int, Field(ge=1, le=1_000_000, strict=True)]
_SERVICE = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
"""Full name of a gRPC service."""


def _one_mistake(rule: object) -> object:
    """Report one mistake in a rule for unknown methods; a union would report one per member."""
    rules = rule if isinstance(rule, dict) else {None: rule}
    for service, each in rules.items():
        if service is not None and not re.match(_SERVICE, str(service)):
            raise refuse(
                f"{service!r} is not the full name of a service", "write it as in 'mail.Archive: pass'"
            )
        if each not in get_args(UnknownRule):
            named = f"of {service} " if service else ""
            raise refuse(
                f"{each!r} is not a rule {named}for unknown methods",
                "write refuse, pass, or a map with one of the two for each service",
            )
    return rule


UnknownMethods = Annotated[
    UnknownRule | Mapping[Annotated[str, StringConstraints(pattern=_SERVICE)], UnknownRule],
    BeforeValidator(_one_mistake),
]


class RequestMetadata(Strict):
    """Metadata that the gateway adds to every call, or takes from it, before the broker sees it."""

    put: Mapping[str, str] = Field(default={}, repr=False)
    """Values by key; they take the place of what the client says under these keys."""
    take: tuple[str, ...] = ()
    """Keys that the broker does not get."""

    @model_validator(mode="after")
    def _allowed(self) -> "RequestMetadata":
        for key, value in [*self.put.items(), *((key, "") for key in self.take)]:
            if reason := why_not(key, value):
                raise refuse(f"metadata {key!r} cannot be edited: {reason}", "name another key, or value")
        return self


class Http2(Strict):
    """Limits of one client connection; it is closed when it exceeds them."""

    max_streams: _Count = 4_000
    """Calls that may be open at once, a consumer's stream of messages among them. Clients are told so, and
    wait."""
    resets: _Count = 1_000
    """Calls in a second that a client cancels, or makes the gateway reset."""
    window_updates: _Count = 10_000
    """WINDOW_UPDATE frames in a second, beyond those for what the broker sends."""
    pings: _Count = 1_000
    """PING frames in a second, beyond one for each read from the broker."""
    settings: _Count = 100
    """SETTINGS frames in a second."""
    empty_frames: _Count = 10_000
    """Frames in a second that say nothing: DATA without data, PRIORITY, unknown types."""

    @property
    def limits(self) -> "Limits":
        """The same for a session."""
        from sluicegate_grpc.proxy.splice import Limits  # needs the extra; a file can be read without it

        return Limits(**self.model_dump())


class GrpcConfig(BrokerConfig):
    """One gRPC broker; a driver subclasses it with `system: Literal["danube"]`."""

    policy_defaults: ClassVar[Mapping[str, int | float | str | bool]] = {
        "on_limit.max_publish_rate": "reject",
        "on_limit.max_publish_rate_bytes": "reject",
        "on_limit.publish_quota": "reject",
        "on_limit.publish_quota_bytes": "reject",
        "on_limit.principal_publish_quota": "reject",
        "on_limit.principal_publish_quota_bytes": "reject",
    }
    alpn: ClassVar[tuple[str, ...]] = ("h2",)

    ghost_release: Duration = Field(default=30_000, gt=0)
    """Producers and consumers of which nothing was heard for this long no longer count; keep it above the
    time between two signs of life of a client."""
    size_of: SizeOf = "payload"
    """What sizes and byte rates count: a message's payload, or the whole message as it is encoded, with its
    attributes."""
    unknown_methods: UnknownMethods = "refuse"
    """Calls of methods that the gateway does not know, for which no policy can hold. refuse: they are
    answered UNIMPLEMENTED. pass: they go through unread. Or one of the two for each service, by its full
    name; services that are not named are refused then."""
    http2: Http2 = Http2()
    """What one client connection may do."""
    request_metadata: RequestMetadata = RequestMetadata()
    """What is changed in the metadata of every call."""

    @property
    def addresses(self) -> tuple[tuple[str, int], ...]:
        """The configured brokers, host and port; in lower case, as URLs are read."""
        return tuple((address.host.lower(), address.port) for address in self.bootstrap)
