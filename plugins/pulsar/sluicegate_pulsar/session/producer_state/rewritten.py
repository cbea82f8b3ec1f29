"""Forwarded messages of one producer that the gateway gave a delivery time, until they are answered."""

from collections import deque

_MOST = 10_000
"""Messages of one producer, more than a broker has under way; the answers to any beyond pass as they are."""


class Rewritten:
    """The messages in the order in which they were forwarded, numbered as `Producer.sent` counts them."""

    __slots__ = ("_answers", "_refused", "messages")

    def __init__(self) -> None:
        self.messages: deque[tuple[int, int, bool, str]] = deque(maxlen=_MOST)
        """Number, sequence id of the answer, whether it completes its message (False for a chunk that is not
        the last), and the `key_of` a chunk. Whatever forwards a message appends it; empty where the broker's
        answers pass."""
        self._answers: dict[int, bytes] = {}
        """What the client gets in place of the broker's answers, by number."""
        self._refused: set[int] = set()
        """Numbers that the broker has refused."""

    def refuse(self, sequence_id: int, error: bytes, no_receipt: bytes) -> str | None:
        """The broker has refused a message, which may be ahead of its answers to earlier ones.

        :param error: the client's answer.
        :param no_receipt: its answer for a chunk that is not the last, after which the last gets the error,
            whatever the broker says of that: a library fails a message once for each error.
        :return: the `key_of` a chunk, empty for another message; None if there is no such message.
        """
        same = (one for one in self.messages if one[1] == sequence_id)
        refused = next((one for one in same if one[0] not in self._refused), None)
        if refused is None:
            return None
        number, _, completes, key = refused
        self._refused.add(number)
        self._answers[number] = error if completes else no_receipt
        if not completes:
            last = next((number for number, _, completes, _ in same if completes), 0)
            if last:
                self._answers[last] = error
        return key

    def answered(self, number: int) -> bytes:
        """The broker has answered a message, and all before it.

        :return: what the client gets in place of the answer; empty for the answer itself.
        """
        messages = self.messages
        while messages and messages[0][0] <= number:
            messages.popleft()
        return self._answers.pop(number, b"")

    def pop_refused(self, number: int) -> bytes:
        """The client's answer to a message whose turn it is; empty if the broker has not refused it."""
        if number not in self._refused:
            return b""
        self._refused.discard(number)
        return self.answered(number)
