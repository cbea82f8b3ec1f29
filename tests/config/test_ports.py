"""Which ports a file takes, which of them twice, and which brokers are the gateway itself."""

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
    given = [entry if "bootstrap" in entry else f"bootstrap: ['a:1'], {entry}" for entry in entries]
    rows = [f"  - {{system: ranged, {entry}}}" for entry in given]
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


def test_an_entry_for_clients_takes_no_ports() -> None:
    assert found("name: a, first: 9095, count: 3", "name: b, first: 9095, count: 3") == []


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


LOOPS = [
    ("127.0.0.1:7", "127.0.0.1", True),
    ("127.0.0.2:7", "127.0.0.1", False),
    ("127.0.0.1:8", "127.0.0.1", False),
    ("localhost:7", "127.0.0.1", True),
    ("LOCALHOST:7", "'::1'", True),
    ("127.0.0.1:7", "localhost", True),
    ("localhost:7", "0.0.0.0", True),
    ("127.9.9.9:7", "0.0.0.0", True),
    ("10.0.0.1:7", "0.0.0.0", False),
    ("'[::1]:7'", "'::'", True),
    ("localhost:7", "'::'", True),
    ("'[::1]:7'", "0.0.0.0", False),
    ("127.0.0.1:7", "'::'", False),
    ("0.0.0.0:7", "127.0.0.1", True),
    ("Gate.example:7", "gate.Example", True),
    ("kafka.example:7", "gate.example", False),
]


@pytest.mark.parametrize(("bootstrap", "host", "is_loop"), LOOPS)
def test_a_broker_that_is_the_gateways_own_listener_is_an_error(
    bootstrap: str, host: str, is_loop: bool
) -> None:
    entry = f"name: a, listen: {{host: {host}, port: 7}}, bootstrap: [{bootstrap}]"
    assert found(entry) == ([(2, "error")] if is_loop else [])


def test_a_broker_that_is_the_listener_of_another_entry_is_an_error() -> None:
    entries = (
        "name: a, listen: {port: 7}, bootstrap: ['b:1']",
        "name: b, listen: {port: 8}, bootstrap: ['localhost:7']",
    )
    assert found(*entries) == [(3, "error")]
    nodes = NODES.format("a", 10, 20, "true") + ", bootstrap: ['127.0.0.1:22']"
    assert found(nodes) == [(2, "error")]
    assert found(nodes.replace("true", "false")) == []
    assert found("name: a, listen: {port: 7}, bootstrap: ['localhost:9095']") == [(2, "error")]


def test_a_broker_at_the_address_that_clients_connect_to_is_a_warning() -> None:
    entry = "name: a, listen: {{host: 0.0.0.0, port: 7}}, advertised_host: gate.example, bootstrap: ['{}']"
    assert found(entry.format("gate.example:7")) == [(2, "warning")]
    assert found(entry.format("gate.example:8")) == []
