"""Forwarded messages of one producer that the gateway gave a delivery time, until they are answered."""

from collections import deque

_MOST = 10_000
"""Messages of one producer; a broker reads no further long before, and of any beyond its answer passes as it
is."""


class _Message:
    __slots__ = ("answer", "completes", "is_refused", "number", "sequence_id")

    def __init__(self, number: int, sequence_id: int, completes: bool) -> None:
        self.number = number
        self.sequence_id = sequence_id
        self.completes = completes
        self.answer = b""
        """What the client gets in place of the broker's answer; empty for the broker's own."""
        self.is_refused = False
        """Whether the broker has refused it."""


class Rewritten:
    """The messages in the order in which they were forwarded, numbered as `Producer.sent` counts them."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages: deque[_Message] = deque()
        """Empty where the broker's answers pass."""

    def add(self, number: int, sequence_id: int, completes: bool) -> None:
        """A message was forwarded.

        :param sequence_id: the one that its answer has.
        :param completes: False for a chunk that is not the last of its message.
        """
        if len(self.messages) < _MOST:
            self.messages.append(_Message(number, sequence_id, completes))

    def refuse(self, sequence_id: int, error: bytes, no_receipt: bytes) -> bool:
        """The broker has refused a message, which may be ahead of its answers to earlier ones.

        :param error: the client's answer.
        :param no_receipt: its answer for a chunk that is not the last, after which the last gets the error,
            whatever the broker says of that: a library fails a message once for each error.
        :return: False if there is no such message.
        """
        same = (one for one in self.messages if one.sequence_id == sequence_id)
        refused = next((one for one in same if not one.is_refused), None)
        if refused is None:
            return False
        refused.is_refused = True
        if refused.completes:
            refused.answer = error
            return True
        refused.answer = no_receipt
        for last in same:
            if last.completes:
                last.answer = error
                break
        return True

    def stored(self, number: int) -> bytes:
        """The broker has stored a message, and with it all before it that it has not refused.

        :return: what the client gets in place of the receipt; empty for the receipt itself.
        """
        messages = self.messages
        while messages and messages[0].number < number:
            messages.popleft()
        return messages.popleft().answer if messages and messages[0].number == number else b""

    def pop_refused(self, number: int) -> bytes:
        """The client's answer to a message whose turn it is; empty if the broker has not refused it."""
        messages = self.messages
        if messages and messages[0].number == number and messages[0].is_refused:
            return messages.popleft().answer
        return b""
