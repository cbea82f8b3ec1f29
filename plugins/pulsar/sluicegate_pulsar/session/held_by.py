"""Names the work of the Pulsar room that a stack shows; see `sluicegate.engine.holders`."""

from collections.abc import Mapping
from typing import Any

from sluicegate.engine.holders import tell_by
from sluicegate_pulsar.codec.frames import command_type
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand
from sluicegate_pulsar.session.consumers.consumer import Consumer
from sluicegate_pulsar.session.producers.publishing import Publishing
from sluicegate_pulsar.session.requests.stream import Stream

_NAMES = BaseCommand.Type.DESCRIPTOR.values_by_number


def _frames(variables: Mapping[str, Any]) -> Mapping[str, str]:
    known = _NAMES.get(command_type(variables["data"], variables["at"]))
    return {"api": f"pulsar {known.name.lower()}" if known is not None else "pulsar unknown"}


def enter() -> None:
    """Register the methods of this package."""
    tell_by(Stream, "_frames", _frames)
    tell_by(Publishing, "_drain", lambda variables: {"work": "pulsar publish queue"})
    tell_by(Consumer, "pump", lambda variables: {"work": "pulsar withheld messages"})
