"""Which consumer groups a client is in, as far as the gate can tell.

A Fetch does not say for which group it is. It is attributed to the groups that the same client joined on any
of its connections: same principal, same host, same client id.
"""

from collections.abc import Callable

from sluicegate_kafka.connection import Connection, Identity


class Members:
    """Groups by client identity, with the topics they were joined for."""

    def __init__(self) -> None:
        self._joined: dict[Identity, dict[tuple[Connection, str], frozenset[str]]] = {}
        self._identities: dict[Connection, Identity] = {}
        """Under which identity a connection joined: its client id may change later."""

    def joined(self, connection: Connection, group: str, topics: frozenset[str]) -> None:
        """A connection of a client joined a group."""
        identity = self._identities.setdefault(connection, connection.identity)
        self._joined.setdefault(identity, {})[connection, group] = topics

    def left(self, connection: Connection, group: str) -> None:
        """A connection of a client left a group."""
        self._drop(connection, lambda joined_group: joined_group == group)

    def forget(self, connection: Connection) -> None:
        """A connection has ended; its memberships with it."""
        self._drop(connection, lambda joined_group: True)
        self._identities.pop(connection, None)

    def _drop(self, connection: Connection, leaves: Callable[[str], bool]) -> None:
        identity = self._identities.get(connection)
        joined = self._joined.get(identity) if identity is not None else None
        if identity is None or joined is None:
            return
        for key in [key for key in joined if key[0] is connection and leaves(key[1])]:
            del joined[key]
        if not joined:
            del self._joined[identity]

    def consumes(self, identity: Identity, topic: str) -> bool:
        """Whether a client joined a group for a topic, so that it is counted as that group's member."""
        joined = self._joined.get(identity)
        return joined is not None and any(topic in topics for topics in joined.values())

    def group_of(self, identity: Identity, topic: str) -> str | None:
        """The group that a client's Fetch of a topic is for.

        :return: "" if the client is in no group; None if it could be one of several.
        """
        joined = self._joined.get(identity)
        if not joined:
            return ""
        groups = {group for _, group in joined}
        if len(groups) > 1:
            groups = {group for (_, group), topics in joined.items() if topic in topics} or groups
        return groups.pop() if len(groups) == 1 else None
