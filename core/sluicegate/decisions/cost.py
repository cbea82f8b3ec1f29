"""Samples the duration of publish decisions: only a few are timed, the others run unchanged."""

from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Protocol

from sluicegate.model import TopicName

EVERY_NS = 10_000_000
"""At most one sample in 10 ms: about one decision in 1,000 on a busy gate."""


class DecidedGate(Protocol):
    """The part of a gate that the log uses."""

    @property
    def topic(self) -> TopicName:
        """The topic whose policies the gate applies."""

    @property
    def version(self) -> int:
        """Version of those policies."""

    def time_next_publish(self, report: Callable[[int], None], clock: Callable[[], int]) -> None:
        """Time the next publish decision with a clock in ns, and call `report` with the duration."""


class CostSampler:
    """Times the next publish decision of a gate, including the log.

    :param report: called with the gate and the duration in ns, right after that decision.
    """

    __slots__ = ("_report", "next_ns")

    def __init__(self, report: Callable[[DecidedGate, int], None]) -> None:
        self.next_ns = 0
        """When the next sample is due; the hot path reads it directly to save a call."""
        self._report = report

    def arm(self, gate: DecidedGate, now_ns: int) -> None:
        """Time the gate's next publish decision."""
        self.next_ns = now_ns + EVERY_NS
        gate.time_next_publish(partial(self._report, gate), perf_counter_ns)
