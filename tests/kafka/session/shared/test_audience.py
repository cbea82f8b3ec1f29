"""How much work it is to match the readers of a topic with group members, counted in comparisons."""

from itertools import count

import pytest
from tests.kafka.session.wire import SECOND, Bench, Wire

from sluicegate_kafka.session.shared import audience as audience_module
from sluicegate_kafka.session.shared.audience import Audience
from sluicegate_kafka.session.shared.client_counts import Places
from sluicegate_kafka.session.shared.readers import Membership, Reader


class Equals:
    """Equal clients that read one topic.

    :param monkeypatch: to count the comparisons of readers with members.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.first = Wire(Bench())
        self.audience = Audience(self.first.session.connection.identity, "t", Places())
        self.compared = 0
        self._ports = count(5_001)
        may_be = Audience._may_be

        def counting(audience: Audience, reader: Reader, member: Membership, now_ns: int) -> bool:
            self.compared += 1
            return may_be(audience, reader, member, now_ns)

        monkeypatch.setattr(Audience, "_may_be", counting)

    def _wire(self, node: str) -> Wire:
        return Wire(Bench(), self.first.shared, peer=f"10.0.0.1:{next(self._ports)}", node=node)

    def joins(self, group: str, *partitions: int) -> Membership:
        """One more member, on a connection of its own."""
        connection = self._wire("node-9").session.connection
        key = (group, f"m{len(self.audience.members)}")
        member = self.audience.members[connection, key] = Membership(connection, key, 0, lambda key: None)
        member.assign(frozenset(partitions), 0)
        self.audience.changed()
        return member

    def reads(self, node: str, *partitions: int, at_ns: int = 1) -> Reader:
        """One more reader."""
        connection = self._wire(node).session.connection
        reader = Reader(connection, self.audience.identity, "t", self.audience.members, at_ns)
        reader.fetches(frozenset(partitions))
        self.audience.add(reader)
        return reader

    def settles(self) -> int:
        """Match again; the number of comparisons."""
        self.compared = 0
        self.audience.changed()
        self.audience.settle(1)
        return self.compared


def test_readers_of_one_large_group_are_not_compared_with_all_its_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    equals = Equals(monkeypatch)
    for number in range(100):
        equals.joins("g", number)
    readers = [equals.reads(f"node-{number % 3}", number) for number in range(100)]
    equals.settles()
    assert equals.settles() == 100, "each with its own match"
    assert {reader.names for reader in readers} == {("g",)}


def test_readers_of_two_groups_may_be_of_either(monkeypatch: pytest.MonkeyPatch) -> None:
    equals = Equals(monkeypatch)
    for number in range(20):
        equals.joins("a", number)
        equals.joins("b", number)
    readers = [equals.reads(f"node-{1 + number % 2}", number) for number in range(20)]
    equals.settles()
    assert {frozenset(reader.names) for reader in readers} == {frozenset("ab")}


@pytest.mark.parametrize("at_ns", [1, -1], ids=["readers that may be any member", "readers of nobody"])
def test_the_comparisons_of_one_match_are_bounded(monkeypatch: pytest.MonkeyPatch, at_ns: int) -> None:
    monkeypatch.setattr(audience_module, "_COMPARISONS", 500)
    equals = Equals(monkeypatch)
    members = 100
    for number in range(members):
        equals.joins(f"g{number}", 0)
    readers = [equals.reads(f"node-{number % 2}", 0, at_ns=at_ns) for number in range(60)]
    for _ in range(5):
        # Of the readers each is compared with its match as well, and the last one may exceed each bound.
        assert equals.settles() <= 2 * (500 + members) + len(readers)
    assert all(reader.names[0] == reader.name for reader in readers)


def test_a_reader_beyond_the_comparisons_keeps_its_match(monkeypatch: pytest.MonkeyPatch) -> None:
    equals = Equals(monkeypatch)
    for number in range(10):
        equals.joins(f"g{number}", number)
    readers = [equals.reads(f"node-{number % 2}", number) for number in range(10)]
    equals.settles()
    matches = [reader.match for reader in readers]
    assert None not in matches
    monkeypatch.setattr(audience_module, "_COMPARISONS", 0)
    late = equals.reads("node-1", 3)
    equals.settles()
    assert [reader.match for reader in readers] == matches
    assert (late.match, late.number) == (None, 1), "it counts as a consumer without a group"


def test_a_match_of_many_goes_on_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audience_module, "_COMPARISONS", 35)
    equals = Equals(monkeypatch)
    for number in range(10):
        equals.joins("g", number)
    readers = [equals.reads("node-1", number) for number in range(10)]
    matched = []
    for at_ns in (1, SECOND, SECOND + 1, 2 * SECOND + 1):
        equals.audience.settle(at_ns)
        matched.append(sum(reader.match is not None for reader in readers))
    assert matched == [4, 4, 8, 10]
    assert not any(reader.number for reader in readers)
