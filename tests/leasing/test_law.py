"""No window admits more than rate x T + burst over all gates, whatever processes and the network do."""

from collections.abc import Mapping

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.engine.test_bucket import worst_window
from tests.leasing.fleet import MS, Fleet, Gateway

from sluicegate.model import OperationKind

GATEWAYS = 3
LIMITED: Mapping[str, Mapping[str, object]] = {
    "rate": {"max_publish_rate": "100/s"},
    "refusing": {"max_publish_rate": "100/s", "on_limit.max_publish_rate": "reject"},
    "quota": {"publish_quota": "100/s", "max_publish_rate": "1000/s"},
    "each": {"principal_publish_quota": "100/s"},
    "dispatch": {"max_dispatch_rate": "100/s", "max_subscription_dispatch_rate": "150/s"},
    "factor": {"max_publish_rate": "200/s", "publish_quota": "1000/s"},
    "short burst": {"max_publish_rate": "100/s", "burst_seconds": 0.1},
}

_WHO = st.integers(0, GATEWAYS - 1)
_STEPS = st.one_of(
    st.tuples(st.just("pass"), st.sampled_from([1, 20, 49, 50, 99, 100, 199, 200, 201, 400, 1_500])),
    st.tuples(st.just("load"), _WHO, st.sampled_from([0, 1, 5])),
    st.tuples(st.just("offer"), _WHO, st.sampled_from([1, 7, 90])),
    st.tuples(st.just("stop"), _WHO),
    st.tuples(st.just("go on"), _WHO),
    st.tuples(st.just("lose"), _WHO, st.sampled_from(["", "request", "answer"])),
    st.tuples(st.just("slow"), _WHO, st.sampled_from([0, 5, 19, 230])),
    st.tuples(st.just("forget")),
)


def _slow(fleet: Fleet, who: Gateway, delay_ms: int, messages: dict[str, int]) -> None:
    """Let calls take time, in which the gateway goes on."""

    def on_the_way() -> None:
        fleet.now_ns += delay_ms * MS
        fleet.retry(who)
        if delay_ms:
            fleet.offer(who, **messages)

    who.network.on_the_way = on_the_way


@pytest.mark.parametrize("limited", LIMITED)
@settings(max_examples=25)
@example(steps=[("load", 0, 5), ("load", 1, 5), ("pass", 400), ("stop", 0), ("pass", 400), ("go on", 0)])
@example(steps=[("load", 0, 5), ("pass", 400), ("lose", 0, "answer"), ("load", 1, 5), ("pass", 1_500)])
@given(steps=st.lists(_STEPS, max_size=30))
def test_no_window_admits_more_than_rate_and_burst(limited: str, steps: list[tuple[object, ...]]) -> None:
    policies = LIMITED[limited]
    half = {"half": 0.5} if limited == "factor" else {}
    fleet = Fleet(policies, gateways=GATEWAYS, factors=half)
    operation: dict[str, object] = {"subscription": "s"} if limited == "dispatch" else {}
    if limited == "dispatch":
        operation["kind"] = OperationKind.DISPATCH
    load = [0] * GATEWAYS

    def offer() -> None:
        for who, messages in zip(fleet.members, load, strict=True):
            if messages and not who.is_stopped and len(who.held) < 20:
                fleet.offer(who, messages, **operation)  # type: ignore[arg-type]

    for step in steps:
        _play(fleet, step, load, operation)
        if step[0] == "pass":
            fleet.pass_time(int(str(step[1])) * MS, 5 * MS, offer)

    burst = 10 if limited == "short burst" else 100
    largest = max((messages for _, messages in fleet.admitted), default=0)
    assert worst_window(sorted(fleet.admitted), 100) <= max(burst, largest) + 1e-6


def _play(fleet: Fleet, step: tuple[object, ...], load: list[int], operation: Mapping[str, object]) -> None:
    if step[0] == "forget":
        fleet.budgets.forget()
    if step[0] in ("pass", "forget"):
        return
    index = int(str(step[1]))
    who = fleet.members[index]
    match step[0]:
        case "load":
            load[index] = int(str(step[2]))
        case "offer" if not who.is_stopped:
            fleet.offer(who, int(str(step[2])), **operation)  # type: ignore[arg-type]
        case "stop" | "go on":
            who.is_stopped = step[0] == "stop"
        case "lose":
            who.network.failing = str(step[2])
        case "slow":
            _slow(fleet, who, int(str(step[2])), {"messages": 1, **operation})  # type: ignore[dict-item]
