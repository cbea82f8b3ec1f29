"""Questions of one session to its front, and what waits for the answers."""

from collections.abc import Hashable
from typing import Generic, TypeVar

Call = TypeVar("Call")


class Questions(Generic[Call]):
    """Questions without an answer, each with what is called then; equal questions are asked once.

    An answer has no content: the front stores what it learned where all sessions find it.
    """

    __slots__ = ("_waiting", "new")

    def __init__(self) -> None:
        self.new: list[Hashable] = []
        """Questions that the front has not been asked; the session takes them out."""
        self._waiting: dict[Hashable, list[Call]] = {}

    def ask(self, question: Hashable, call: Call) -> bool:
        """Wait for an answer; returns whether the question is a new one."""
        waiting = self._waiting.setdefault(question, [])
        waiting.append(call)
        if len(waiting) > 1:
            return False
        self.new.append(question)
        return True

    def answered(self, question: Hashable) -> list[Call]:
        """Take what waits for an answer, in the order in which it began to wait."""
        return self._waiting.pop(question, [])
