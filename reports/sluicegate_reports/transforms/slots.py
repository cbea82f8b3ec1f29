"""Slots: flows summed by short intervals, all clients together, the input of most figures."""

from typing import Any

import numpy as np

from sluicegate_reports.transforms.flows import (
    ADMITTED,
    CLIENTS,
    DROPPED,
    FAILED,
    HELD,
    LOG,
    OFFERED,
    OTHERWISE,
    REFUSED,
    Flows,
)
from sluicegate_reports.transforms.packed import NEVER, Flags, Numbers

FINE_US = 100_000
"""Width that a summary's windows have too: finer is not to be had from one."""
COARSE_US = 1_000_000
"""Width for long runs."""
LATER = np.iinfo(np.int64).max
"""Sentinel: no first time."""


_SUMS = (
    *("rows", "admitted", "offered", "held", "admitted_messages", "refused_messages"),
    *("asked", "answered", "limited", "otherwise"),
)
_TOTALS = ("admitted_messages", "refused_messages", "limited", "otherwise", "asked", "answered")
_OF_SECOND = ("admitted", "offered", "limited", "held")


class Slots:
    """The sums of one source of a lane, each an array with an entry for each slot."""

    def __init__(self, source: str, length_us: int, width_us: int) -> None:
        """Begin with slots in which there is nothing.

        :param source: `flows.LOG` or `flows.CLIENTS`.
        :param length_us: of the lane.
        :param width_us: of a slot; a divisor of a second.
        """
        self.source, self.width_us = source, width_us
        count = -(-length_us // width_us)
        none, never, later = (np.full(count, value) for value in (0, NEVER, LATER))
        self.rows = none.copy()
        """How many flows there were of any kind."""
        self.admitted, self.offered, self.held = none.copy(), none.copy(), none.copy()
        """In what the lane counts."""
        self.admitted_messages, self.refused_messages = none.copy(), none.copy()
        self.asked, self.answered = none.copy(), none.copy()
        """Messages, by clients."""
        self.limited, self.otherwise = none.copy(), none.copy()
        """Rows: refused, dropped or held; by another policy."""
        self.largest, self.largest_messages = np.full(count, -1), np.full(count, -1)
        """Admitted at once; -1 if nothing was."""
        self.first_limited_us, self.last_limited_us = later.copy(), never.copy()
        """LATER and NEVER if nothing was."""
        self.clients: dict[str | None, int] = {}
        """What each client got in all."""

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, flows: Flows) -> None:
        """Take further flows into account."""
        at_us, slot = flows.at_us, flows.at_us // self.width_us
        admitted, limited = flows.are(ADMITTED), flows.are(REFUSED, DROPPED, HELD)
        offered = flows.are(OFFERED)
        # What a gateway holds is asked for again as the row that admits it.
        if self.source == LOG:
            offered |= flows.are(ADMITTED, REFUSED, DROPPED)
        answered = flows.are(ADMITTED, REFUSED, FAILED) & (self.source == CLIENTS)
        every = np.ones_like(slot)
        for sums, rows, values in (
            (self.rows, every > 0, every),
            (self.admitted, admitted, flows.amount),
            (self.offered, offered, flows.amount),
            (self.held, flows.are(HELD), flows.amount),
            (self.admitted_messages, admitted, flows.messages),
            (self.refused_messages, flows.are(REFUSED, DROPPED, OTHERWISE), flows.messages),
            (self.asked, flows.are(OFFERED), flows.messages),
            (self.answered, answered, flows.messages),
            (self.limited, limited, every),
            (self.otherwise, flows.are(OTHERWISE), every),
        ):
            sums += _summed(slot[rows], values[rows], len(self))
        np.maximum.at(self.largest, slot[admitted], flows.amount[admitted])
        np.maximum.at(self.largest_messages, slot[admitted], flows.messages[admitted])
        np.minimum.at(self.first_limited_us, slot[limited], at_us[limited])
        np.maximum.at(self.last_limited_us, slot[limited], at_us[limited])
        self._add_clients(flows, admitted)

    def merge(self, other: "Slots") -> None:
        """Take another part of the same lane into account."""
        for name in _SUMS:
            getattr(self, name).__iadd__(getattr(other, name))
        for name in ("largest", "largest_messages", "last_limited_us"):
            np.maximum(getattr(self, name), getattr(other, name), out=getattr(self, name))
        np.minimum(self.first_limited_us, other.first_limited_us, out=self.first_limited_us)
        for client, amount in other.clients.items():
            self.clients[client] = self.clients.get(client, 0) + amount

    def _add_clients(self, flows: Flows, admitted: Flags) -> None:
        names = [*flows.client.names, None]
        code = np.where(flows.client.codes < 0, len(names) - 1, flows.client.codes)
        got = _summed(code[admitted], flows.amount[admitted], len(names))
        for index in np.unique(code).tolist():
            self.clients[names[index]] = self.clients.get(names[index], 0) + int(got[index])


def per_second(slots: Slots) -> list[dict[str, Any]]:
    """What each second of a lane admitted, was asked for and limited, all clients together.

    :return: `second`, `admitted`, `offered`, `limited`, `held`; of seconds in which there was anything.
    """
    second = np.arange(len(slots)) * slots.width_us // 1_000_000
    sums = {
        name: np.bincount(second, getattr(slots, name)).astype(np.int64) for name in ("rows", *_OF_SECOND)
    }
    return [
        {"second": at, **{name: int(sums[name][at]) for name in _OF_SECOND}}
        for at in np.flatnonzero(sums["rows"]).tolist()
    ]


def totals(slots: Slots) -> dict[str, Any]:
    """Sums over a lane.

    :return: `admitted_messages`, `refused_messages`, `largest_messages` and `largest` (at once; None if
        nothing was admitted), `limited`, `otherwise` (rows), `asked` and `answered` (messages, of clients).
    """
    sums = {name: int(getattr(slots, name).sum()) for name in _TOTALS}
    return sums | {name: _largest(getattr(slots, name)) for name in ("largest_messages", "largest")}


def _largest(values: Numbers) -> int | None:
    """The largest of what was admitted at once; None if nothing was."""
    most = int(values.max(initial=-1))
    return most if most >= 0 else None


def _summed(index: Numbers, values: Numbers, count: int) -> Numbers:
    """Sums by index; exact as far as a double is."""
    return np.bincount(index, values, count).astype(np.int64)
