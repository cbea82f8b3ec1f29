"""What a gate says of a real broker that answers, stalls and comes back: the same on all systems."""

from typing import Protocol

from tests.real.gate import GateProcess


class Stalling(Protocol):
    """A broker that a test can stop for a while."""

    def pause(self) -> None:
        """Stop it, with its connections open."""

    def resume(self) -> None:
        """Let it go on."""


def check_up(gate: GateProcess) -> None:
    """The gate reports its broker as reachable."""
    gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 1, "the broker is up")


def check_stall(gate: GateProcess, broker: Stalling) -> None:
    """The gate reports a stall once, and once that it is over; one that the machine brings about, as well."""
    check_up(gate)
    broker.pause()
    try:
        gate.eventually(lambda: gate.metric("sluicegate_broker_up") == 0, "the broker stalls")
        stalled, back = _told(gate)
        assert stalled == back + 1
    finally:
        broker.resume()
    check_up(gate)
    gate.eventually(lambda: _told(gate)[0] == _told(gate)[1] > back, "each stall is over")


def _told(gate: GateProcess) -> tuple[int, int]:
    """How often the log says that the broker stalls, and how often that it is back."""
    text = gate.output()
    return text.count("accepts connections and says nothing"), text.count("broker is reachable again")


def cut_off(gate: GateProcess) -> int:
    """How many failures to reach the broker are not over by the log; a busy machine brings some about."""
    text = gate.output()
    begun = text.count("cannot reach broker") - text.count("still cannot reach broker")
    return begun - text.count("broker is reachable again")
