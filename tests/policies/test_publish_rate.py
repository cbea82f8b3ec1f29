"""The publish rate: delay, reject or drop; messages and bytes as one; observed apart."""

import heapq

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policies.lab import MS, SECOND_NS, PolicyLab, publish, verdict

from sluicegate.model import Action, Outcome, PolicyValue

RATE = "max_publish_rate"
BYTES = "max_publish_rate_bytes"


@pytest.mark.seed("S1-005", "S1-060", "S1-061", "S1-122", "S1-147")
def test_above_the_rate_an_operation_waits_its_turn(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 10})
    assert all(gate.publish(publish(), 0) is None for _ in range(10))
    op = publish()

    held = gate.publish(op, 0)

    assert verdict(held) == (Action.DELAY, RATE, Outcome.LIMIT_REACHED)
    assert held is not None
    assert held.delay_ns == pytest.approx(100 * MS, abs=1)
    # Another one comes later and goes later, even though it asks first.
    assert gate.publish(publish(), held.delay_ns) is not None
    assert gate.publish(op, held.delay_ns) is None


@pytest.mark.seed("S1-062", "S1-100", "S1-103")
def test_the_text_has_rate_and_limit(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 500})
    assert gate.publish(publish(500), 0) is None

    held = gate.publish(publish(20), 0)

    assert held is not None
    assert held.text == (
        "Publish rate limit exceeded for topic /default/orders. "
        "Current: 520 messages/s, Limit: 500 messages/s. "
        "Slow down or increase max_publish_rate policy."
    )
    assert (held.reasons[0].current, held.reasons[0].limit) == (520, 500)


@pytest.mark.seed("S1-011", "S1-065")
@pytest.mark.parametrize(
    ("values", "messages", "nbytes", "policy"),
    [
        ({RATE: 10, BYTES: 1000}, 10, 10, RATE),
        ({RATE: 10, BYTES: 1000}, 1, 1000, BYTES),
        ({BYTES: 1000}, 1000, 1000, BYTES),
    ],
)
def test_the_dimension_that_is_short_is_named(
    lab: PolicyLab, values: dict[str, PolicyValue], messages: int, nbytes: int, policy: str
) -> None:
    gate = lab.gate(values)
    assert gate.publish(publish(messages, nbytes), 0) is None

    held = gate.publish(publish(1, 10), 0)

    assert verdict(held) == (Action.DELAY, policy, Outcome.LIMIT_REACHED)
    assert held is not None
    assert policy in held.text


@pytest.mark.seed("S1-061", "S1-100")
def test_reject_refuses_at_once_and_says_when_to_retry(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 10, f"on_limit.{RATE}": "reject"})
    assert gate.publish(publish(10), 0) is None
    op = publish(5)

    refused = gate.publish(op, 0)

    assert verdict(refused) == (Action.REJECT, RATE, Outcome.LIMIT_REACHED)
    assert refused is not None
    assert refused.delay_ns == pytest.approx(500 * MS, abs=1)
    assert op.waiter is None
    # It took no turn of another: a smaller one passes as soon as there is enough for it.
    assert gate.publish(publish(), 100 * MS + 1) is None


def test_drop_is_for_what_was_never_promised_to_arrive(lab: PolicyLab) -> None:
    gate = lab.gate({BYTES: 100, f"on_limit.{BYTES}": "drop"})
    assert gate.publish(publish(1, 100), 0) is None

    dropped = gate.publish(publish(reliable=False), 0)
    refused = gate.publish(publish(reliable=True), 0)

    assert dropped is not None
    assert refused is not None
    assert (dropped.action, refused.action) == (Action.DROP, Action.REJECT)
    assert (gate.state.dropped, gate.state.rejected) == (1, 1)


@pytest.mark.seed("S1-066", "S1-142")
def test_burst_seconds_is_what_passes_at_once(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 100, "burst_seconds": 0.5})

    assert sum(gate.publish(publish(), 0) is None for _ in range(200)) == 50


@pytest.mark.seed("S1-067")
def test_a_batch_above_the_burst_passes_on_a_full_bucket(lab: PolicyLab) -> None:
    gate = lab.gate({BYTES: 1000})

    assert gate.publish(publish(1, 5000), 0) is None
    held = gate.publish(publish(1, 1), 0)
    assert held is not None
    assert held.delay_ns == SECOND_NS


@pytest.mark.seed("S1-009", "S1-063")
def test_zero_builds_no_limiter(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 0, BYTES: 0})

    assert all(gate.publish(publish(10**6, 10**6), 0) is None for _ in range(100))
    assert gate.state.limiters == {}


@pytest.mark.seed("S1-024", "S1-125", "S1-063")
def test_a_changed_rate_reaches_who_is_held_and_keeps_the_balance(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 1})
    assert gate.publish(publish(), 0) is None
    op, other = publish(), publish()
    assert gate.publish(op, 0) is not None
    assert gate.publish(other, 0) is not None

    faster = lab.gate({RATE: 1000}, now_ns=10 * MS)
    assert faster.publish(op, 12 * MS) is None
    unlimited = lab.gate({}, now_ns=12 * MS)
    assert unlimited.publish(other, 12 * MS) is None
    assert faster.state.limiters[RATE].waiting == 0


def test_switching_to_reject_ends_holding(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 1})
    gate.publish(publish(), 0)
    op = publish()
    gate.publish(op, 0)

    rejecting = lab.gate({RATE: 1, f"on_limit.{RATE}": "reject"}, now_ns=MS)

    assert verdict(rejecting.publish(op, MS)) == (Action.REJECT, RATE, Outcome.LIMIT_REACHED)
    assert op.waiter is None
    assert gate.state.limiters[RATE].waiting == 0


@pytest.mark.seed("S1-144")
@pytest.mark.parametrize("whole_gate", [True, False])
def test_observed_excess_is_recorded_and_owes_nothing_later(lab: PolicyLab, whole_gate: bool) -> None:
    values: dict[str, PolicyValue] = {RATE: 10}
    if not whole_gate:
        values[f"mode.{RATE}"] = "observe"
    gate = lab.gate(values, observe_only=whole_gate)

    assert all(gate.publish(publish(), 0) is None for _ in range(100))
    assert gate.state.observed == 90
    assert {(found.action, found.observed) for found in lab.sink.decisions} == {(Action.DELAY, True)}

    enforced = lab.gate({RATE: 10})
    assert sum(enforced.publish(publish(), 0) is None for _ in range(20)) == 10


def test_one_dimension_observed_and_the_other_applied(lab: PolicyLab) -> None:
    gate = lab.gate({RATE: 100, BYTES: 1000, f"mode.{BYTES}": "observe"})

    assert gate.publish(publish(1, 5000), 0) is None
    assert gate.publish(publish(99, 5000), 0) is None
    held = gate.publish(publish(1, 5000), 0)

    assert verdict(held) == (Action.DELAY, RATE, Outcome.LIMIT_REACHED)
    observed = [found.reasons[0].policy for found in lab.sink.decisions if found.observed]
    assert observed == [BYTES]  # what is held has not passed, so it is not observed either


def test_exempt_principals_pass_uncharged(lab: PolicyLab) -> None:
    values: dict[str, PolicyValue] = {RATE: 10}
    exempt = lab.gate(values, exempt=True)
    assert all(exempt.publish(publish(), 0) is None for _ in range(100))

    gate = lab.gate(values)
    assert sum(gate.publish(publish(), 0) is None for _ in range(20)) == 10


@pytest.mark.seed("S1-129", "S1-066")
@settings(max_examples=40, deadline=None)
@given(
    rate=st.integers(1, 300),
    bytes_per_s=st.integers(1000, 10**6),
    batches=st.lists(st.tuples(st.integers(1, 20), st.integers(10, 30_000)), min_size=1, max_size=5),
)
def test_first_second_and_every_later_one_are_bounded(
    rate: int, bytes_per_s: int, batches: list[tuple[int, int]]
) -> None:
    lab = PolicyLab()
    gate = lab.gate({RATE: rate, BYTES: bytes_per_s})
    ops = [publish(messages, nbytes) for messages, nbytes in batches]
    wakes = [(0, number) for number in range(len(ops))]
    admitted: list[tuple[int, int, int]] = []
    while wakes[0][0] < 3 * SECOND_NS:
        now_ns, number = heapq.heappop(wakes)
        held = gate.publish(ops[number], now_ns)
        if held is None:
            admitted.append((now_ns, ops[number].messages, ops[number].bytes))
        heapq.heappush(wakes, (now_ns + (held.delay_ns if held else 1000), number))

    for start_ns, _, _ in admitted:
        window = [entry for entry in admitted if start_ns <= entry[0] <= start_ns + SECOND_NS]
        most_messages = rate + max(rate, *(messages for messages, _ in batches), 0)
        most_bytes = bytes_per_s + max(bytes_per_s, *(nbytes for _, nbytes in batches), 0)
        assert sum(entry[1] for entry in window) <= most_messages
        assert sum(entry[2] for entry in window) <= most_bytes
    assert lab.faults.counts == {}
