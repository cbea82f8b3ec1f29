"""Error bounds for replayed summaries: a window has only sums, not the time and client of each operation.

The fill of a token bucket is an interval. The fewest operations of a window pass if all come at its start and
the bucket is at its lower bound; the most pass if they come as evenly as tokens and it is at its upper bound.
Operations of one window are assumed to be alike. A refused operation costs no tokens; a held one does, and
the fill goes below 0.
"""

from dataclasses import dataclass

from sluicegate.engine.bucket import SECOND_NS
from sluicegate.model import EffectivePolicies
from sluicegate_reports.replaying.tally import Range

_NAMES = {
    "publish": ("max_publish_rate", "max_publish_rate_bytes"),
    "dispatch": ("max_dispatch_rate", "max_dispatch_rate_bytes"),
}


@dataclass(slots=True)
class _Level:
    """Fill of one dimension of a bucket, between two values."""

    per_ns: float
    capacity: float
    low: float
    high: float

    def refill(self, passed_ns: int) -> None:
        grown = passed_ns * self.per_ns
        self.low = min(self.capacity, self.low + grown)
        self.high = min(self.capacity, self.high + grown)


@dataclass(slots=True)
class _Slot:
    """The demand between two times."""

    start_ns: int
    end_ns: int
    operations: int = 0
    messages: int = 0
    bytes: int = 0


class WindowBounds:
    """Bounds for one topic and kind of operation.

    :param policies: the candidate's effective policies of the topic.
    :param operation: publish or dispatch.
    :param range_: counts are added to it.
    """

    def __init__(self, policies: EffectivePolicies, operation: str, range_: Range) -> None:
        self._range = range_
        self._waits = waits(policies, operation)
        self._rates = [policies.number(name) for name in _NAMES[operation]]
        self._burst_s = policies.number("burst_seconds") or 1.0
        self._levels: list[_Level] = []
        self._known_ns = 0
        self._slot: _Slot | None = None

    def add(self, start_ns: int, length_ns: int, operations: int, messages: int, nbytes: int) -> None:
        """Add demand of a period; in order of time.

        :param length_ns: 0 for a single operation, whose time is known; it joins the window that it falls
            into, if there is one, as its position in there is unknown.
        """
        slot = self._slot
        if slot is None or start_ns >= slot.end_ns:
            self.close()
            slot = self._slot = _Slot(start_ns, start_ns + length_ns)
        slot.operations += operations
        slot.messages += messages
        slot.bytes += nbytes

    def close(self) -> None:
        """Count the open window."""
        slot, self._slot = self._slot, None
        if slot is None or not slot.operations:
            return
        if not self._levels:
            self._levels = [
                _Level(rate / SECOND_NS, rate * self._burst_s, rate * self._burst_s, rate * self._burst_s)
                for rate in self._rates
                if rate
            ]
            self._known_ns = slot.start_ns
        for level in self._levels:
            level.refill(max(0, slot.start_ns - self._known_ns))
        self._known_ns = max(self._known_ns, slot.end_ns)
        totals = [total for total, rate in zip((slot.messages, slot.bytes), self._rates, strict=True) if rate]
        if self._waits:
            self._held(slot, totals)
        else:
            self._refused(slot, totals)

    def _passing(self, slot: _Slot, totals: list[int]) -> tuple[int, int]:
        """Operations that pass at once, at least and at most."""
        least, most = slot.operations, slot.operations
        for level, total in zip(self._levels, totals, strict=True):
            if not total:
                continue
            grown = (slot.end_ns - slot.start_ns) * level.per_ns
            # A need larger than the bucket passes when it is full.
            need = min(total / slot.operations, level.capacity)
            least = min(least, int(max(0.0, level.low) / need + 1e-9))
            most = min(most, int(max(0.0, level.high + grown) / need + 1e-9))
        return least, max(least, most)

    def _refused(self, slot: _Slot, totals: list[int]) -> None:
        least, most = self._passing(slot, totals)
        self._range.refused_low += slot.operations - most
        self._range.refused_high += slot.operations - least
        for level, total in zip(self._levels, totals, strict=True):
            grown = (slot.end_ns - slot.start_ns) * level.per_ns
            each = total / slot.operations
            level.low = max(0.0, min(level.capacity, level.low + grown) - most * each)
            level.high = min(level.capacity, max(0.0, level.high - least * each) + grown)

    def _held(self, slot: _Slot, totals: list[int]) -> None:
        least, most = self._passing(slot, totals)
        self._range.delayed_low += slot.operations - most
        self._range.delayed_high += slot.operations - least
        for level, total in zip(self._levels, totals, strict=True):
            grown = (slot.end_ns - slot.start_ns) * level.per_ns
            longest = max(0.0, total - level.low) / level.per_ns
            shortest = max(0.0, total - level.high - grown) / level.per_ns
            self._range.longest_delay_high_ns = max(self._range.longest_delay_high_ns, round(longest))
            self._range.longest_delay_low_ns = max(self._range.longest_delay_low_ns, round(shortest))
            level.low = min(level.capacity, level.low + grown) - total
            level.high = min(level.capacity, level.high - total + grown)


def limit_name(policies: EffectivePolicies, operation: str) -> str | None:
    """The rate that holds for a kind of operation on a topic, by the name of its policy; None without one."""
    return next((name for name in _NAMES.get(operation, ()) if policies.number(name)), None)


def waits(policies: EffectivePolicies, operation: str) -> bool:
    """Whether operations above the rate wait, rather than being refused or dropped."""
    options = [f"on_limit.{name}" for name in _NAMES[operation]]
    chosen = next((option for option in options if policies.level(option)), options[0])
    return policies.text(chosen, "delay") == "delay"
