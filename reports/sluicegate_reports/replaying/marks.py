"""What the record says of a row of the demand."""

from enum import IntEnum


class Mark(IntEnum):
    """What the record says of a row, where it is not a publish or dispatch that was allowed."""

    PLAIN = 0
    HELD = 1
    REFUSED = 2
    DROPPED = 3
    OTHER = 4
    """An operation of another kind that was allowed."""
    WINDOW = 5
    LEFT = 6
    """No row of the log: a client was there for the last time."""
