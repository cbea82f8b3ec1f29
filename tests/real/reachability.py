"""What a gate says of a real broker that answers, stalls and comes back: the same on all systems."""

from typing import Protocol

from tests.real.gate import GateProcess


class Stalling(Protocol):
    """A broker that a test can stop for a while."""

    def freeze(self) -> None:
        """Stop it, with its connections open."""

    def thaw(self) -> None:
        """Let it go on."""


def check_up(gate: GateProcess) -> None:
    """The gate reports its broker as reachable."""
    gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 1, "the broker is up")


def check_stall(gate: GateProcess, broker: Stalling) -> None:
    """The gate reports a stall once, and once that it is over."""
    check_up(gate)
    broker.freeze()
    try:
        gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 0, "the broker stalls")
        assert gate.output().count("accepts connections and says nothing") == 1
    finally:
        broker.thaw()
    check_up(gate)
    assert gate.output().count("broker is reachable again") == 1
