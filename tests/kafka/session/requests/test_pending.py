"""Responses leave in the order of their requests, whether the broker or the gateway made them."""

from sluicegate.broker import ToClient
from sluicegate.engine.budget import Budget
from sluicegate_kafka.session.requests.outcomes import Expected, Finished
from sluicegate_kafka.session.requests.pending import Outstanding


def sent(outstanding: Outstanding, now_ns: int = 0) -> list[bytes]:
    """What may go to the client now."""
    out = outstanding.release(now_ns)
    assert all(isinstance(command, ToClient) for command in out)
    return [bytes(command.data) for command in out if isinstance(command, ToClient)]


def test_an_answer_of_the_gateway_waits_for_earlier_responses() -> None:
    outstanding = Outstanding(Budget(0), 100)
    outstanding.queue.append(1)
    outstanding.answer(b"refused")
    outstanding.queue.append(3)

    assert sent(outstanding) == []
    assert outstanding.arrived() == 1
    outstanding.replace(1, b"passed")
    assert sent(outstanding) == [b"passed", b"refused"]
    assert outstanding.arrived() == 3


def test_a_response_waits_behind_a_held_earlier_one() -> None:
    outstanding = Outstanding(Budget(0), 100)
    first, second = Expected(1, lambda frame, now_ns: None), Expected(2, lambda frame, now_ns: None)
    outstanding.queue.append(first)
    outstanding.queue.append(second)
    outstanding.replace(first, Finished(b"one", at_ns=500))
    assert outstanding.arrived() is second
    outstanding.replace(second, b"two")

    assert sent(outstanding, now_ns=499) == []
    assert (outstanding.due_ns, outstanding.held_bytes) == (500, 6)
    assert sent(outstanding, now_ns=500) == [b"one", b"two"]
    assert (outstanding.due_ns, outstanding.held_bytes) == (None, 0)
    assert len(outstanding) == 0


def test_a_part_without_its_own_response_leaves_no_state() -> None:
    outstanding = Outstanding(Budget(0), 100)
    part = Expected(7, lambda frame, now_ns: None)
    outstanding.queue.append(part)
    outstanding.queue.append(8)
    outstanding.replace(part, None)
    assert outstanding.arrived() == 8
    assert outstanding.finished == 0


def test_a_response_without_a_request_matches_nothing() -> None:
    outstanding = Outstanding(Budget(0), 100)
    assert outstanding.arrived() is None
    assert len(outstanding) == 0
