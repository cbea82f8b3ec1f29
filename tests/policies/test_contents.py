"""Policies that read messages: headers and schemas."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.policies.lab import PolicyLab, publish, verdict

from sluicegate.engine.check import Check
from sluicegate.model import (
    Action,
    HeaderChange,
    Headers,
    Message,
    Operation,
    OperationKind,
    Outcome,
    Part,
)

REQUIRED, FORBIDDEN, REMOVED, ALLOWED = (
    "required_headers",
    "forbidden_headers",
    "remove_headers",
    "allowed_content",
)
WRITTEN_BY_17 = Message(schema="17")


def publish_of(*messages: Message, unreadable: str = "") -> Operation:
    return replace(publish(len(messages)), contents=messages, unreadable=unreadable)


def with_headers(*names: str) -> Message:
    return Message(headers=tuple((name, b"1") for name in names))


@pytest.mark.parametrize(
    ("policy", "value", "passes", "refused"),
    [
        (REQUIRED, "trace, tenant", with_headers("tenant", "trace", "more"), with_headers("trace")),
        (REQUIRED, "trace", with_headers("trace"), with_headers("Trace")),
        (FORBIDDEN, "x-internal-*", with_headers("x-ternal-a"), with_headers("a", "x-internal-a")),
        (FORBIDDEN, "secret", with_headers("secrets"), with_headers("secret")),
        (ALLOWED, "any", WRITTEN_BY_17, Message()),
        (ALLOWED, "17, 18", WRITTEN_BY_17, Message(schema="1")),
    ],
)
def test_each_message_of_a_batch_is_checked(
    lab: PolicyLab, policy: str, value: str, passes: Message, refused: Message
) -> None:
    gate = lab.gate({policy: value})

    assert gate.publish(publish_of(passes, passes), 0) is None
    assert verdict(gate.publish(publish_of(passes, refused), 0)) == (Action.REJECT, policy, Outcome.INVALID)


@pytest.mark.parametrize(
    ("policy", "message", "text"),
    [
        (REQUIRED, Message(), "has no header trace. Set it in the producer"),
        (FORBIDDEN, with_headers("trace"), "has header trace, which policy forbidden_headers forbids"),
        (ALLOWED, Message(), "names no schema. Allowed: trace. "),
        (ALLOWED, WRITTEN_BY_17, "is written by schema 17. Allowed: trace. "),
    ],
)
def test_a_refusal_says_what_is_wrong(lab: PolicyLab, policy: str, message: Message, text: str) -> None:
    refused = lab.gate({policy: "trace"}).publish(publish_of(message), 0)

    assert refused is not None
    assert text in refused.text


def test_what_is_to_be_removed_is_rewritten(lab: PolicyLab) -> None:
    gate = lab.gate({REMOVED: "x-*, y"})

    assert gate.publish(publish_of(with_headers("a", "xa")), 0) is None
    rewrite = gate.publish(publish_of(with_headers("a", "x-a"), with_headers("y", "x-b")), 0)

    assert rewrite is not None
    assert rewrite.action is Action.REWRITE
    assert rewrite.headers == HeaderChange(remove=frozenset({"x-a", "x-b", "y"}))


def test_what_is_only_observed_is_not_rewritten(lab: PolicyLab) -> None:
    gate = lab.gate({REMOVED: "x"}, observe_only=True)

    assert gate.publish(publish_of(with_headers("x")), 0) is None
    assert lab.sink.decisions[-1].observed


def test_a_gate_says_which_parts_its_checks_read(lab: PolicyLab) -> None:
    assert lab.gate({"max_publish_rate": 10}).reads == frozenset()
    assert lab.gate({REQUIRED: "a", ALLOWED: "any"}).reads == {Part.HEADERS, Part.SCHEMA}


@pytest.mark.parametrize("policy", [REQUIRED, FORBIDDEN, ALLOWED])
def test_messages_that_cannot_be_read_are_refused_and_counted(lab: PolicyLab, policy: str) -> None:
    gate = lab.gate({policy: "a"})

    for _ in range(10):  # the breaker of checks that raise does not open
        refused = gate.publish(publish_of(unreadable="encrypted"), 0)
        assert verdict(refused) == (Action.REJECT, policy, Outcome.INVALID)
    assert sum(lab.faults.counts.values()) == 10
    assert {fault.error for fault in lab.faults.last.values()} == {"unreadable: encrypted"}


def test_headers_that_cannot_be_read_are_not_removed_and_counted(lab: PolicyLab) -> None:
    assert lab.gate({REMOVED: "a"}).publish(publish_of(unreadable="encrypted"), 0) is None
    assert sum(lab.faults.counts.values()) == 1


def test_a_part_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TypeError, match="reads 'body', expected some of headers, key, schema, value"):
        Check("mine", (OperationKind.PUBLISH,), lambda op, now_ns: None, reads=("body",))


NAMES = st.sampled_from(["a", "b", "c"])
CHANGES = st.builds(
    HeaderChange, st.dictionaries(NAMES, st.binary(max_size=1)), st.frozensets(NAMES, max_size=2)
).filter(lambda change: not change.set.keys() & change.remove)
HEADERS = st.lists(st.tuples(NAMES, st.binary(max_size=1))).map(tuple)


@given(HEADERS, CHANGES, CHANGES)
def test_a_joined_change_is_both_in_their_order(
    headers: Headers, first: HeaderChange, second: HeaderChange
) -> None:
    assert sorted(first.joined(second).apply(headers)) == sorted(second.apply(first.apply(headers)))
