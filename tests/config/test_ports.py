"""Which ports a file takes, and which of them twice."""

from collections.abc import Callable, Iterator
from typing import Literal

import pytest

from sluicegate.config.errors import Finding
from sluicegate.config.models import Admin, BrokerConfig, Ports
from sluicegate.config.port_conflicts import port_findings
from sluicegate.config.tree import parse

Found = list[tuple[int, str]]


class Ranged(BrokerConfig):
    """A kind of broker whose nodes have ports."""

    system: Literal["ranged"]
    first: int = 0
    count: int = 0
    known: bool = True

    def ports(self) -> Iterator[Ports]:
        yield from super().ports()
        if self.count:
            yield Ports(self.listen.host, self.first, self.count, ("first",), "node ports", self.known)


def found(*entries: str) -> Found:
    """Line and severity of what is found, each entry in a line of its own from line 2 on."""
    rows = [f"  - {{system: ranged, bootstrap: ['a:1'], {entry}}}" for entry in entries]
    root = parse("\n".join(["brokers:", *rows]), "f", [])
    brokers = root.child("brokers")
    assert brokers is not None
    assert brokers.items is not None
    read = [Ranged.model_validate(node.plain()) for node in brokers.items]
    findings: list[Finding] = list(port_findings(root, Admin(), enumerate(read)))
    assert all(finding.remedy for finding in findings)
    return [(finding.line, finding.severity) for finding in findings]


@pytest.mark.parametrize(
    ("first", "second", "is_shared"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "localhost", True),
        ("0.0.0.0", "10.0.0.1", True),
        ("'::'", "10.0.0.1", True),
        ("10.0.0.2", "10.0.0.1", False),
    ],
)
def test_hosts_share_ports_if_one_covers_the_other(first: str, second: str, is_shared: bool) -> None:
    entries = [f"name: a{n}, listen: {{host: {h}, port: 5}}" for n, h in enumerate((first, second))]
    assert found(*entries) == ([(3, "error")] if is_shared else [])


def test_any_free_port_is_never_taken_twice() -> None:
    assert found("name: a, listen: {port: 0}", "name: b, listen: {port: 0}") == []


def test_the_admin_endpoint_counts_by_its_default_too() -> None:
    assert found("name: a, listen: {port: 9095}") == [(2, "error")]


NODES = "name: {}, listen: {{port: {}}}, first: {}, count: 3, known: {}"
IN_TOUCH: list[tuple[Callable[[str], str], str, Found]] = [
    (lambda known: NODES.format("a", 100, 101, known), "name: b, listen: {port: 103}", [(3, "?")]),
    (lambda known: NODES.format("a", 100, 101, known), "name: b, listen: {port: 104}", []),
    (lambda known: NODES.format("a", 102, 101, known), "name: b, listen: {port: 9}", [(2, "?")]),
]


@pytest.mark.parametrize(("first", "second", "expected"), IN_TOUCH)
@pytest.mark.parametrize("known", ["true", "false"])
def test_ports_of_nodes_are_as_certain_as_their_ids(
    first: Callable[[str], str], second: str, expected: Found, known: str
) -> None:
    severity = "error" if known == "true" else "warning"
    assert found(first(known), second) == [(line, severity) for line, _ in expected]


def test_ranges_of_unknown_nodes_may_touch_at_an_end() -> None:
    assert found(NODES.format("a", 9, 100, "false"), NODES.format("b", 10, 102, "false")) == []
    assert found(NODES.format("a", 9, 100, "false"), NODES.format("b", 10, 101, "false")) == [(3, "warning")]


def test_no_port_is_beyond_the_last() -> None:
    assert found(NODES.format("a", 9, 65533, "true")) == []
    assert found(NODES.format("a", 9, 65534, "true")) == [(2, "error")]
    assert found(NODES.format("a", 9, 65534, "false")) == [(2, "warning")]
    assert found(NODES.format("a", 9, 65536, "false")) == [(2, "error")]
