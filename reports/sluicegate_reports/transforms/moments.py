"""When what one source tells of was admitted: exactly, or within a range; see `law.Moments`.

A gateway's log tells the microsecond, or the tenth of a second of a summary. A client was let pass at some
moment between its question and its answer, and no earlier than the gateway's log tells, if there is one.
Without a log only a stand-still of all clients tells that something came late.
"""

import numpy as np

from sluicegate_reports.transforms.law import Moments
from sluicegate_reports.transforms.packed import NEVER, Numbers
from sluicegate_reports.transforms.requests import Admitted, Requests

_CATCHING_UP_US = 200_000
"""After a stand-still clients see for so long what came meanwhile."""


def of_log(log: Requests) -> Moments:
    """Moments by a gateway's log."""
    own = log.admitted
    if not log.window_ms:
        return Moments(own.at_us, own.at_us, own.amount)
    latest_us = own.at_us + own.window_us
    order = np.lexsort((own.at_us, latest_us))
    return Moments(own.at_us[order], latest_us[order], own.amount[order])


def of_clients(seen: Requests, log: Requests | None, carried: int, most_us: int) -> Moments:
    """Moments by what clients saw.

    :param log: of the gateway that they spoke to, if it tells anything.
    :param carried: messages that were on their way to them when the lane began, let pass before.
    :param most_us: for so long, at most, something was on its way.
    """
    own = seen.admitted
    let_pass_us = _by_log(own, log.admitted, carried) if log else own.at_us - _stood_still(own.at_us)
    earliest_us = np.maximum(let_pass_us, own.at_us - most_us)
    known = own.since_us != NEVER
    earliest_us = np.where(known, np.maximum(earliest_us, own.since_us), earliest_us)
    # By clocks that differ, a message may seem to be sent after it was acknowledged.
    return Moments(np.minimum(earliest_us, own.at_us), own.at_us, own.amount)


def _by_log(seen: Admitted, log: Admitted, carried: int) -> Numbers:
    """When the gateway let pass as many messages; what it does not tell of came when it was seen."""
    before = np.cumsum(seen.messages) - carried
    index = np.searchsorted(np.cumsum(log.messages), before)
    known = index < len(log.at_us)
    at_us: Numbers = np.where(
        known, log.at_us[np.where(known, index, 0)] if len(log.at_us) else 0, seen.at_us
    )
    return np.where(before <= 0, NEVER // 2, at_us)


def _stood_still(at_us: Numbers) -> Numbers:
    """The longest time without anything, up to each moment or shortly before it."""
    if not len(at_us):
        return at_us
    slot = at_us // _CATCHING_UP_US
    longest = np.zeros(int(slot[-1]) + 2, np.int64)
    np.maximum.at(longest, slot + 1, np.diff(at_us, prepend=at_us[0]))
    return np.maximum(longest[slot], longest[slot + 1])
