"""The kinds of demand rows: who asks for what, and how the record says it ended."""

from enum import IntEnum

WHO = ("system", "door", "gateway", "namespace", "topic", "principal", "client", "operation", "subscription")
"""The columns that identify client and kind of operation; rows have one number for all of them."""


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
    NAMES = 7
    """Not a row of the log: maps a number to its client and kind of operation."""
