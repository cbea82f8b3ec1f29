"""A session as the gateway makes it, with the real engine and the policies of the made-up broker's topics."""

from tests.bench import SECOND, Bench
from tests.grpc.proxy.splice.oracle.service import METHODS

from sluicegate.model import PolicyValue
from sluicegate_grpc.proxy.splice import GrpcSession, Limits, Shared
from sluicegate_grpc.proxy.splice.requests import RequestRules
from sluicegate_grpc.proxy.splice.shared import Address
from sluicegate_grpc.semantics.calls import Attachments, Calls

FREE, SMALL, SLOW, PACED, DROPPING, LATE = "free", "small", "slow", "paced", "dropping", "late"
MAX_SIZE = 100
"""Payload bytes that `small` admits."""
MAX_HOLD_NS = 2 * SECOND


def services() -> Bench:
    """What the gateway gives, with the policies of each topic."""
    bench = Bench()
    bench.set_topic(SMALL, max_message_size=MAX_SIZE)
    slow: dict[str, PolicyValue] = {"max_publish_rate": 3, "on_limit.max_publish_rate": "delay"}
    bench.set_topic(SLOW, **slow)
    bench.set_topic(PACED, max_dispatch_rate=5)
    dropping: dict[str, PolicyValue] = {"max_dispatch_rate": 5, "on_limit.max_dispatch_rate": "drop"}
    bench.set_topic(DROPPING, **dropping)
    bench.set_topic(LATE, fixed_delivery_delay=300)
    return bench


def shared(bench: Bench | None = None, limits: Limits | None = None) -> Shared:
    """What the sessions of one front share."""
    given = bench or services()
    calls = Calls(METHODS, Attachments(given.gates.get, 30 * SECOND))
    return Shared(given, calls, RequestRules(METHODS), MAX_HOLD_NS, limits or Limits())


def session(front: Shared | None = None, addresses: tuple[Address, ...] = ()) -> GrpcSession:
    """A session whose broker is connected already, if it is given no addresses."""
    return GrpcSession(front or shared(), "10.0.0.1:5000", addresses)
