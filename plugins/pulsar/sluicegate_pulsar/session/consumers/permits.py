"""How many messages a broker may send for one consumer, so that what the gateway withholds has bounds.

A client grants permits by FLOW, and the broker uses one up for each message it sends. The gateway passes
permits on only as far as there is room for the messages, and keeps the others until there is: the broker
never has more than the client granted, and in the end it has them all.
"""

_FIRST_ENTRY_BYTES = 64 * 1024
"""The expected size of an entry until some have arrived."""
_DECAY = 64
_LEAST_SHARE = 4
"""Permits are forwarded in lots of at least this part of the room, as a FLOW for each message is costly."""


class Permits:
    """The permits of one consumer.

    :param room_bytes: what may be on its way from the broker or withheld, as far as sizes can be foreseen.
    :param entry_bytes: size to expect of an entry; 0 if nothing is known.
    :param exact: False if permits went by uncounted before, so that it is unknown how many the broker has:
        then all are passed on.
    """

    __slots__ = ("_room_bytes", "are_withheld", "entry_bytes", "exact", "outstanding", "waiting")

    def __init__(self, room_bytes: int, entry_bytes: int = 0, *, exact: bool = True) -> None:
        self._room_bytes = room_bytes
        self.entry_bytes = entry_bytes or _FIRST_ENTRY_BYTES
        """Size of the largest recent entries, which decays slowly."""
        self.exact = exact
        self.are_withheld = False
        """True while the consumer has to acknowledge first."""
        self.outstanding = 0
        """What the broker has and has not used. It is below 0 after a batch with more messages than it had
        permits for, which brokers send."""
        self.waiting = 0
        """Granted, and not passed on yet; below 0 if more was passed on."""

    def lose_count(self) -> None:
        """It is unknown from here on how many the broker has."""
        self.exact = False

    def withhold(self) -> None:
        """Pass none on: the consumer has to acknowledge first."""
        self.are_withheld = True

    def release(self) -> None:
        """Pass them on again."""
        self.are_withheld = False

    def grant(self, messages: int) -> None:
        """Add permits of the client, or permits for messages that it never sees.

        :param messages: below 0 to take back what was granted for a message that the client sees after all.
        """
        self.waiting += messages

    def used(self, messages: int, size: int) -> None:
        """The broker has sent an entry.

        :param messages: permits that the broker counts for it.
        :param size: bytes of its frame.
        """
        self.outstanding -= messages
        expected = self.entry_bytes
        self.entry_bytes = size if size >= expected else expected - (expected - size) // _DECAY

    def take(self, withheld_bytes: int) -> int:
        """Take the permits to forward now.

        :param withheld_bytes: what the consumer has in the gateway.
        """
        waiting = self.waiting
        if waiting <= 0:
            return 0
        if self.exact:
            # Brokers that do not know how many messages a batch has send one entry for each permit.
            room = (self._room_bytes - withheld_bytes) // self.entry_bytes
            if room < 1:
                if withheld_bytes:
                    return 0
                room = 1  # an entry larger than the whole room passes alone
            ready = min(waiting, room - self.outstanding)
            if ready <= 0 or (ready < waiting and ready * _LEAST_SHARE < room and self.outstanding > 0):
                return 0
            waiting = ready
        self.waiting -= waiting
        self.outstanding += waiting
        return waiting
