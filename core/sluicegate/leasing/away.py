"""What a process does with shared limits while their store does not answer."""

import logging
from math import inf

from sluicegate.config.budgets_section import OnBudgetLost
from sluicegate.engine.bucket import SECOND_NS

log = logging.getLogger(__name__)

_MEANINGS = {
    "share": "goes on with a share of each shared limit",
    "open": "goes on without the shared limits",
    "pause": "holds what is under a shared limit",
}
_MOST_TOLD = 5


class Away:
    """Whether the store is away, since when, and what is spent meanwhile.

    It counts as away once its last answer, or the start, is a lease old: until then all go on with what they
    have leased.
    A process pauses instead of taking a share while others may not know of it: their shares might be as large
    as if it were not there. That ends once it has been a member for as long as a membership lasts without
    joining again, since all others have joined again by then.

    :param on_lost: what is spent then.
    :param lease_ns: how long a lease lasts.
    :param member_ns: how long one is a member without joining again.
    :param now_ns: monotonic time at the start.
    """

    def __init__(self, on_lost: OnBudgetLost, lease_ns: int, member_ns: int, now_ns: int) -> None:
        self.members = 0
        """How many share the limits, as last heard; 0 before that."""
        self.calls = self.errors = 0
        self.error = ""
        """Why the last call failed; empty if it did not."""
        self.heard_ns: int | None = None
        """When the last call was sent that was answered."""
        self._logged: set[str] = set()
        """The errors of this time without it that the log has."""
        self._on_lost = on_lost
        self._lease_ns = lease_ns
        self._member_ns = member_ns
        self._first_joined_ns = self._joined_ns = now_ns - member_ns
        """When it became a member, without a break since, and when it last joined."""
        self._since_ns = now_ns
        self._is_away = False
        self._lost_ns = 0
        """How long it was away before."""
        self._spent_ns = 0
        """How much of that time something was spent."""

    @property
    def share(self) -> float:
        """What of each limit is spent meanwhile: inf for no limit."""
        if self._on_lost == "open":
            return inf
        return 1 / self.sharing if self.spends == "share" else 0.0

    @property
    def spends(self) -> str:
        """What is spent meanwhile: `share`, `open` or `pause`."""
        return "pause" if self._on_lost == "share" and not self.sharing else self._on_lost

    @property
    def sharing(self) -> int:
        """Members whose shares are in one sum below the limit; 0 while some may not know of this one."""
        is_known = self._joined_ns - self._first_joined_ns >= self._member_ns
        return self.members if is_known else 0

    @property
    def since_ns(self) -> int | None:
        """Since when it is away; None if it is not."""
        return self._since_ns if self._is_away else None

    def lost_ns(self, now_ns: int) -> int:
        """How long it was away in all."""
        return self._lost_ns + (now_ns - self._since_ns if self._is_away else 0)

    def spent_ns(self, now_ns: int) -> int:
        """How long something was spent without it, in all."""
        return self._spent_ns + (now_ns - self._since_ns if self._is_away and self.share else 0)

    def heard(self, sent_ns: int) -> None:
        """A call was answered."""
        self.calls += 1
        self.heard_ns, self.error = sent_ns, ""
        if self._is_away:
            seconds = (sent_ns - self._since_ns) / SECOND_NS
            log.warning("the budget store answers again, after %.1f s", seconds)
            self._spent_ns, self._lost_ns = self.spent_ns(sent_ns), self.lost_ns(sent_ns)
            self._is_away = False
            self._logged.clear()

    def joined(self, members: int, sent_ns: int) -> None:
        """It is a member, of so many."""
        if sent_ns - self._joined_ns >= self._member_ns:
            self._first_joined_ns = sent_ns
        self._joined_ns, self.members = sent_ns, members

    def failed(self, error: str, now_ns: int) -> None:
        """A call failed."""
        self.calls += 1
        self.errors += 1
        self.error = error
        if self._is_away:
            self._tell_once("the budget store is still away: %s", error)
        elif now_ns >= (self._since_ns if self.heard_ns is None else self.heard_ns) + self._lease_ns:
            self._is_away, self._since_ns = True, now_ns
            text = "the budget store is away: %s; this gateway %s until it answers"
            self._tell_once(text, error, _MEANINGS[self.spends])

    def _tell_once(self, text: str, error: str, *more: str) -> None:
        """Log an error that the log does not have: the first may only say that no answer came in time."""
        reason = error.partition(";")[0]  # without a remedy, which may be for the first time only
        if reason not in self._logged and len(self._logged) < _MOST_TOLD:
            self._logged.add(reason)
            log.warning(text, error, *more)
