"""The rule, message by message. No gateway is needed."""

from dataclasses import replace

import pytest
import sluicegate_header_rule as plugin

from sluicegate.api import Action, Message, Operation, OperationKind
from sluicegate.testing import build_gate

PUBLISH = Operation(OperationKind.PUBLISH, "orders.eu", messages=1, bytes=1, largest=1)
OWN = Message(headers=(("tenant", b"orders"),))


@pytest.fixture
def gate():
    return build_gate({"tenant_header": "tenant"}, [plugin], now_ns=0)


def test_a_message_for_this_namespace_passes_as_it_is(gate):
    assert gate.publish(replace(PUBLISH, contents=[OWN, OWN]), 0) is None


def test_a_message_for_another_namespace_is_refused(gate):
    refused = gate.publish(replace(PUBLISH, contents=[OWN, Message(headers=(("tenant", b"other"),))]), 0)
    assert refused.action is Action.REJECT
    assert refused.text.startswith("Header tenant says 'other', but topic ")


def test_a_message_that_does_not_say_gets_the_header(gate):
    rewrite = gate.publish(replace(PUBLISH, contents=[OWN, Message(headers=(("a", b"b"),))]), 0)
    assert rewrite.action is Action.REWRITE
    assert rewrite.headers.apply((("a", b"b"),)) == (("a", b"b"), ("tenant", b"orders"))


def test_what_cannot_be_read_is_refused(gate):
    refused = gate.publish(replace(PUBLISH, unreadable="encrypted"), 0)
    assert refused.action is Action.REJECT
    assert "cannot be read: encrypted" in refused.text


def test_nothing_is_read_without_the_policy():
    assert not build_gate({}, [plugin], now_ns=0).reads
