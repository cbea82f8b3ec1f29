"""Names of topics and principals."""

import re
from dataclasses import dataclass

ANONYMOUS = "ANONYMOUS"
"""The principal of a client that the broker lets in without authentication."""

_PATH = re.compile(r"/?([^/.]+)[/.].+")


@dataclass(frozen=True, slots=True)
class TopicName:
    """A topic and the namespace whose policies it inherits."""

    full: str
    """The name as the broker knows it."""
    namespace: str
    """The namespace's name, as each broker defines namespaces."""
    others: tuple[str, ...] = ()
    """Further names under which policies may be set for it: short forms, the topic that it is part of."""

    @property
    def all(self) -> tuple[str, ...]:
        """All names under which policies may be set for it."""
        return (self.full, *self.others)


def path_name(topic: str) -> TopicName:
    """A name whose namespace is the part before its first `/` or `.` (a leading `/` aside), or `default`."""
    read = _PATH.fullmatch(topic)
    return TopicName(topic, read[1] if read is not None else "default")
