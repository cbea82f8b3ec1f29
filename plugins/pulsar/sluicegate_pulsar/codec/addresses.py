"""Every field in which a command carries an address, and how to put others in their place."""

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from google.protobuf.message import Message

from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand

Translate: TypeAlias = Callable[[str], str | None]
"""An address as the sender says it -> what the receiver shall see; None to take it out."""

_ASSIGNED = (("assigned_broker_service_url",), ("assigned_broker_service_url_tls",))
_BROKER = (("broker_service_url",), ("broker_service_url_tls",))

ADDRESS_FIELDS: Final[Mapping[int, tuple[tuple[str, ...], ...]]] = MappingProxyType(
    {
        BaseCommand.CONNECT: (("proxy_to_broker_url",),),
        BaseCommand.LOOKUP_RESPONSE: _BROKER,
        BaseCommand.CLOSE_PRODUCER: _ASSIGNED,
        BaseCommand.CLOSE_CONSUMER: _ASSIGNED,
        BaseCommand.TOPIC_MIGRATED: _BROKER,
        BaseCommand.SCALABLE_TOPIC_UPDATE: (
            ("dag", "segment_brokers", "broker_url"),
            ("dag", "segment_brokers", "broker_url_tls"),
            ("dag", "controller_broker_url"),
            ("dag", "controller_broker_url_tls"),
        ),
        BaseCommand.WATCH_TC_ASSIGNMENTS_UPDATE: (
            ("snapshot", "assignments", "broker_service_url"),
            ("snapshot", "assignments", "broker_service_url_tls"),
        ),
    }
)
"""Paths of the address fields below a command, by its type. All but CONNECT's go from brokers to clients."""

NO_BROKER_FIELDS: Final = frozenset({"ConsumerStatsResponse.address"})
"""Addresses that nobody connects to: that one is the client's own end, as the broker sees it."""


def rewrite_addresses(command: BaseCommand, translate: Translate) -> bool:
    """Put other addresses in a command, in place.

    Addresses that are empty stay so. Where `translate` answers None the field is cleared (a client then looks
    its topic up again); a required one becomes empty, which no client can connect to.

    :param command: any command; those without addresses are left alone.
    :param translate: what the receiver shall see for each address.
    :returns: True if something was changed.
    """
    changed = False
    for path in ADDRESS_FIELDS.get(command.type, ()):
        name = path[-1]
        below = getattr(command, BaseCommand.DESCRIPTOR.fields_by_number[command.type].name)
        for holder in _holders(below, path[:-1]):
            url = getattr(holder, name)
            if not url:
                continue
            other = translate(url)
            if other == url:
                continue
            changed = True
            if other is not None:
                setattr(holder, name, other)
            else:
                holder.ClearField(name)
                if not holder.IsInitialized():
                    setattr(holder, name, "")
    return changed


def _holders(message: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """The messages that a path leads to, of which there may be many or none."""
    if not path:
        yield message
        return
    below = getattr(message, path[0])
    if not isinstance(below, Message):
        for each in below:
            yield from _holders(each, path[1:])
    elif message.HasField(path[0]):
        yield from _holders(below, path[1:])
