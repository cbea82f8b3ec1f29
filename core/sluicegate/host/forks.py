"""Tells objects with threads that the process was forked: the child has their memory, and no threads."""

import os
from collections.abc import Callable
from threading import Lock
from typing import Protocol
from weakref import WeakMethod, WeakSet

__all__ = ["ForkGuard"]


class Lockable(Protocol):
    """A lock of `threading`."""

    def acquire(self) -> bool:
        """Take it."""

    def release(self) -> None:
        """Give it back."""


class ForkGuard:
    """Belongs to an object that is of no use in the child of a fork.

    :param lock: held during the fork, so that the child finds it free, and whole what it guards.
    :param forked: a method, which is called in the child; kept weakly.
    """

    def __init__(self, lock: Lockable, forked: Callable[[], None]) -> None:
        self.lock = lock
        self.forked = WeakMethod(forked)
        with _adding:
            _guards.add(self)


_guards: WeakSet[ForkGuard] = WeakSet()
_adding = Lock()
_locked: list[ForkGuard] = []


def _before() -> None:
    _adding.acquire()
    _locked.extend(_guards)
    for guard in _locked:
        guard.lock.acquire()


def _in_parent() -> None:
    while _locked:
        _locked.pop().lock.release()
    _adding.release()


def _in_child() -> None:
    methods = [guard.forked() for guard in _locked]
    _in_parent()
    for method in methods:
        if method is not None:
            method()


os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
