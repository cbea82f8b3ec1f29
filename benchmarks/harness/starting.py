"""Brokers and proxies that are started when they are first asked for."""

from collections.abc import Callable
from typing import Generic, TypeVar

from benchmarks.harness.processes import UnavailableError

T = TypeVar("T")


class StartedOnce(Generic[T]):
    """What runs by name; what could not be started is not tried again."""

    def __init__(self) -> None:
        self._known: dict[str, T | UnavailableError] = {}

    def get(self, name: str, start: Callable[[], T]) -> T:
        """What runs under a name, started if nothing does.

        :raises UnavailableError: if it could not be started, now or before.
        """
        if name not in self._known:
            try:
                self._known[name] = start()
            except UnavailableError as reason:
                self._known[name] = reason
        found = self._known[name]
        if isinstance(found, UnavailableError):
            raise found
        return found

    def forget(self, name: str) -> T | None:
        """Start it anew when it is asked for next.

        :return: what ran under the name, if anything did.
        """
        known = self._known.pop(name, None)
        return None if isinstance(known, UnavailableError) else known
