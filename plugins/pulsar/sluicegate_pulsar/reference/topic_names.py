"""Names of topics."""

import re
from typing import NamedTuple

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.reference.broker_errors import RefusedError

_NAME = re.compile(r"(persistent|non-persistent)://(?P<namespace>[^/]+/[^/]+)/[^/]+", re.DOTALL)
_PARTITION = re.compile(r"(?P<parent>.+)-partition-(?P<number>0|[1-9][0-9]*)", re.DOTALL)


class Name(NamedTuple):
    """A topic's name in its parts."""

    full: str
    """`persistent://tenant/namespace/topic`."""
    namespace: str
    """`tenant/namespace`."""
    parent: str
    """The partitioned topic that it is a partition of, else the same as `full`."""
    partition: int
    """Its number in that; -1 if it is no partition."""

    @property
    def persistent(self) -> bool:
        """True unless its domain says otherwise; this broker keeps both in memory."""
        return self.full.startswith("persistent:")


def parse_name(text: str) -> Name:
    """Read a topic's name; a short one belongs to the namespace public/default, as in Pulsar.

    :raises RefusedError: if it is not a topic name.
    """
    if "://" not in text:
        text = f"persistent://{text}" if "/" in text else f"persistent://public/default/{text}"
    match = _NAME.fullmatch(text)
    if match is None:
        shape = "persistent://tenant/namespace/topic"
        raise RefusedError(pb.INVALID_TOPIC_NAME, f"Invalid topic name: expected {shape}, not {text!r}")
    part = _PARTITION.fullmatch(text)
    if part is None:
        return Name(text, match["namespace"], text, -1)
    return Name(text, match["namespace"], part["parent"], int(part["number"]))
