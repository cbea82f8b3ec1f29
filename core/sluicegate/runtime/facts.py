"""Small facts that survive restarts, such as the addresses of a broker's nodes."""

from collections.abc import Callable, Mapping, MutableMapping
from types import MappingProxyType

from sluicegate.broker import UNIQUE_FACT


def keep_for_workers(facts: MutableMapping[str, str], key: str, value: str) -> str:
    """Keep what a worker says, or forget it if the value is empty; a `UNIQUE_FACT` stays as it is.

    :return: what is kept.
    """
    if value and key.startswith(UNIQUE_FACT):
        return facts.setdefault(key, value)
    if value:
        facts[key] = value
    else:
        facts.pop(key, None)
    return value


class Facts:
    """The facts of one broker, by key.

    :param known: facts of earlier runs.
    :param keep: stores a key and its new value.
    """

    def __init__(
        self,
        known: Mapping[str, str] = MappingProxyType({}),
        keep: Callable[[str, str], None] = lambda key, value: None,
    ) -> None:
        self._values = dict(known)
        self._keep = keep

    def remember(self, key: str, value: str) -> None:
        """Keep a fact, or forget it if the value is empty; an unchanged one is not stored again.

        For the thread that owns the gates.
        """
        if self._values.get(key, "") == value:
            return
        self.learn(key, value)
        self._keep(key, value)

    def learn(self, key: str, value: str) -> None:
        """Take over a fact that is kept already, or forget it if the value is empty."""
        if value:
            self._values[key] = value
        else:
            self._values.pop(key, None)

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts under a prefix, by whole key; for any thread."""
        # A copy in one step: the gates' thread may change them meanwhile.
        return {key: value for key, value in tuple(self._values.items()) if key.startswith(prefix)}
