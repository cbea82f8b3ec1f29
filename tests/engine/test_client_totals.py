"""What each client sends, receives and has held is counted in bounded memory."""

import pytest
from tests.engine.lab import MakeGate

from sluicegate.engine.check import Check, CheckCall, Stage
from sluicegate.engine.client_totals import COUNTS, Clients, ClientTotals
from sluicegate.engine.state import TopicState
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason, split_client

KINDS = (OperationKind.PUBLISH, OperationKind.DISPATCH)


def operation(client: str, principal: str = "ann", kind: OperationKind = OperationKind.PUBLISH) -> Operation:
    return Operation(kind, "/default/orders", principal, client, messages=3, bytes=30, largest=30)


def counts(totals: ClientTotals) -> dict[str, int]:
    return {name: count for name, count in zip(COUNTS, totals.counts(), strict=True) if count}


def answering(action: Action, until_ns: int) -> CheckCall:
    decision = Decision(action, (Reason("mine", Outcome.LIMIT_REACHED, "no"),), delay_ns=1)
    return lambda op, now_ns: decision if now_ns < until_ns else None


@pytest.mark.parametrize("exempt", [False, True])
def test_what_passes_counts_for_the_client_on_every_path(
    make_gate: MakeGate, state: TopicState, *, exempt: bool
) -> None:
    gate = make_gate([], exempt=exempt)
    one = operation("app@10.0.0.1:5")
    one.messages = 1
    gate.publish(one, 0)
    gate.publish(operation("app@10.0.0.1:6"), 0)
    gate.judge(operation("app@10.0.0.1:6"), 0)
    for decide in (gate.dispatch, gate.judge):
        decide(operation("app@10.0.0.2:7", kind=OperationKind.DISPATCH), 0)
    [totals, rest] = state.broker.clients
    assert (totals.principal, totals.client_id) == ("ann", "app")
    assert counts(totals) == {
        "published_messages": 7,
        "published_bytes": 90,
        "dispatched_messages": 6,
        "dispatched_bytes": 60,
    }
    assert counts(rest) == {}


def test_refusals_and_holds_count_for_the_client(make_gate: MakeGate, state: TopicState) -> None:
    refusing = make_gate([Check("mine", KINDS, answering(Action.REJECT, 100), Stage.RATE)])
    refusing.publish(operation("a@h:1"), 0)
    holding = make_gate([Check("mine", KINDS, answering(Action.DELAY, 100), Stage.RATE)])
    op = operation("a@h:1")
    holding.publish(op, 0)
    holding.publish(op, 50)
    [totals, _] = state.broker.clients
    assert counts(totals) == {"refused": 1, "delayed": 1}
    assert totals.held == 1
    holding.publish(op, 100)
    assert totals.held == 0
    assert counts(totals)["published_messages"] == 3


def test_an_operation_keeps_its_totals_and_equal_clients_share_them() -> None:
    clients = Clients()
    first, second = operation("a@h:1"), operation("a@h:2")
    assert clients.of(first) is clients.of(second) is first.totals
    assert clients.of(operation("a@h:1", "bob")) is not first.totals


def test_clients_beyond_the_bound_are_counted_together_until_there_is_room() -> None:
    clients = Clients(most=1)
    first, second = operation("a@h:1"), operation("b@h:1")
    totals = clients.of(first)
    assert clients.of(second).client_id == ""
    clients.make_room([totals])
    assert clients.of(second).client_id == "b"
    assert clients.of(first) is totals
    assert [each.client_id for each in clients] == ["b", "a", ""]
    del first, totals
    assert [each.client_id for each in clients] == ["b", ""], "nothing counts in the others any more"
    assert len(clients) == 1


def test_long_names_are_cut() -> None:
    totals = Clients().of(operation("x" * 9_999 + "@h:1", "y" * 9_999))
    assert max(len(totals.client_id), len(totals.principal)) <= 250


@pytest.mark.parametrize(
    ("client", "parts"),
    [
        ("app@10.0.0.1:5", ("app", "10.0.0.1:5")),
        ("a@b@[::1]:5", ("a@b", "[::1]:5")),
        ("10.0.0.1:5", ("10.0.0.1", "10.0.0.1:5")),
        ("@10.0.0.1:5", ("10.0.0.1", "10.0.0.1:5")),
        ("name", ("name", "name")),
    ],
)
def test_client_id_and_address(client: str, parts: tuple[str, str]) -> None:
    assert split_client(client) == parts
