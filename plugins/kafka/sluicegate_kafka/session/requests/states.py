"""The states of a Kafka connection, and what leads from one to the next."""

from collections.abc import Mapping
from enum import Enum, auto
from typing import Final


class State(Enum):
    """Where a connection stands."""

    NEW = auto()
    """No whole request has arrived."""
    UNAUTHENTICATED = auto()
    """The client has begun to log in, and the broker has not accepted it yet."""
    OPEN = auto()
    DRAINING = auto()
    """The gateway shuts down: the connection ends as soon as nothing is owed."""
    CLOSED = auto()


class Event(Enum):
    """What happens to a connection."""

    OPENING = auto()
    """A request that clients send before their login is accepted: ApiVersions, SaslAuthenticate."""
    LOGIN = auto()
    """SaslHandshake, until a login is accepted; later ones renew it."""
    ACCEPTED = auto()
    """The broker has accepted the login."""
    REQUEST = auto()
    """Any other request."""
    ENDING = auto()
    CLOSED = auto()


_ENDS: Final = {Event.ENDING: State.DRAINING, Event.CLOSED: State.CLOSED}
NEXT: Final[Mapping[State, Mapping[Event, State]]] = {
    State.NEW: {
        Event.OPENING: State.OPEN,
        Event.LOGIN: State.UNAUTHENTICATED,
        Event.REQUEST: State.OPEN,
        **_ENDS,
    },
    # A request that comes before the login is accepted is the broker's to refuse.
    State.UNAUTHENTICATED: {Event.ACCEPTED: State.OPEN, Event.REQUEST: State.OPEN, **_ENDS},
    State.OPEN: {Event.LOGIN: State.UNAUTHENTICATED, **_ENDS},
    State.DRAINING: {Event.CLOSED: State.CLOSED},
    State.CLOSED: {},
}
"""What leads on from each state; any other event leaves it as it is."""
