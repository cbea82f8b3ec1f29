"""Which brokers clients are told of, and one port for each of them."""

from collections.abc import Mapping
from typing import Any

import pytest

from sluicegate.broker import Listener
from sluicegate_kafka.cluster.nodes import Nodes
from sluicegate_kafka.config import KafkaConfig

MINUTE = 60_000_000_000
B = ("b", 9092)


class Kept(Nodes):
    """Nodes with what a front keeps of them."""

    def __init__(self, **options: Any) -> None:
        entry = {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "advertised_host": "gate"}
        listen = {"host": "0.0.0.0", "port": 19_092}
        super().__init__(KafkaConfig.model_validate(entry | {"listen": listen} | options))
        self.opened: list[Listener] = []
        self.on_change = lambda node_id: self.opened.append(self.listener(node_id))

    @property
    def ports(self) -> Mapping[str, int]:
        return {listener.name: listener.port for listener in self.opened}

    def closed(self, now_ns: int, *connected: str) -> list[tuple[int, list[int]]]:
        return list(self.gone(now_ns, lambda: connected))


def test_the_port_follows_from_the_node_id_alone() -> None:
    nodes = Kept(node_port_base=19_100)
    for _ in range(2):
        assert nodes.named({2: ("10.0.0.2", 9092)}) == {2: ("gate", 19_102)}
    assert nodes.opened == [Listener("node-2", "0.0.0.0", 19_102, (("10.0.0.2", 9092),))]
    assert (nodes.changes, nodes.notes) == (1, [])


def test_a_moved_node_is_announced_again() -> None:
    nodes = Kept()
    nodes.named({1: ("old", 1)})
    nodes.named({1: ("new", 2)})
    assert [listener.upstream for listener in nodes.opened] == [(("old", 1),), (("new", 2),)]
    assert (len(nodes), nodes.listener(1).upstream) == (1, (("new", 2),))


def test_ids_that_do_not_fit_into_a_port_get_the_lowest_free_number(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    nodes = Kept()
    seen = nodes.listed({2**31 - 1: B, 100_000: B, 1: B, 46_442: B, 46_443: B})
    assert {node: port - 19_093 for node, (_, port) in seen.items()} == {
        1: 1,
        46_442: 46_442,
        46_443: 0,
        100_000: 2,
        2**31 - 1: 3,
    }
    text = "node 100000 is reached at port 19095, as node_port_base + 100000 is no free port"
    assert text in caplog.text
    assert text in nodes.notes
    assert len(nodes.notes) == 3


def test_no_node_gets_the_port_of_the_listener_for_bootstrapping() -> None:
    nodes = Kept(node_port_base=19_091)
    assert nodes.listed({0: B, 1: B}) == {0: ("gate", 19_091), 1: ("gate", 19_093)}


def test_a_node_whose_port_is_taken_gets_another() -> None:
    nodes = Kept()
    nodes.named({100_000: B})
    assert nodes.named({0: B}) == {0: ("gate", 19_094)}
    assert nodes.named({100_000: B, 1: B}) == {100_000: ("gate", 19_093), 1: ("gate", 19_095)}


def test_numbers_stay_over_a_restart() -> None:
    nodes = Kept()
    nodes.recall({0: B, 1: B, 100_000: B, 100_001: B}, {0: 100_001, 2: 0, 3: 100_000})
    assert {name: port - 19_093 for name, port in nodes.ports.items()} == {
        "node-100001": 0,
        "node-1": 1,
        "node-0": 2,
        "node-100000": 3,
    }


def test_numbers_that_gateways_gave_out_in_different_orders_are_those_of_one_node_each() -> None:
    nodes = Kept()
    nodes.recall({100_000: B, 100_001: B}, {2: 100_000, 0: 100_000, 1: 100_001})
    assert nodes.named({100_002: B}) == {100_002: ("gate", 19_093 + 3)}
    assert nodes.ports["node-100000"] == 19_093
    nodes.listed({100_001: B, 100_002: B})
    assert nodes.closed(MINUTE) == []
    assert nodes.closed(11 * MINUTE) == [(100_000, [0, 2])]
    assert nodes.named({100_003: B}) == {100_003: ("gate", 19_093)}


def test_a_number_from_before_that_is_no_port_any_more_is_given_up() -> None:
    nodes = Kept(node_port_base=65_500)
    nodes.recall({100_000: B, 100_001: B}, {36: 100_000, 35: 100_001})
    assert nodes.ports == {"node-100000": 65_500, "node-100001": 65_535}


@pytest.mark.parametrize("node_id", [-1, -(2**31)])
def test_what_has_no_id_is_no_node(node_id: int) -> None:
    nodes = Kept()
    assert nodes.named({node_id: B}) == {}
    assert len(nodes) == 0


def test_only_known_brokers_are_nodes_if_any_are_named(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Kept(known_brokers=["*.kafka.svc:9092", "10.0.0.1:9092"])
    for _ in range(2):
        seen = nodes.listed({1: ("B", 9092), 2: ("k1.Kafka.svc", 9092), 3: ("10.0.0.1", 9093), 4: ("x", 1)})
        assert set(seen) == {1, 2}
    text = "node 3 at 10.0.0.1:9093 is kept from clients: known_brokers does not name it"
    assert caplog.text.count(text) == 1
    assert nodes.notes == [text, "node 4 at x:1 is kept from clients: known_brokers does not name it"]
    nodes.listed({1: ("b", 9092), 3: ("10.0.0.1", 9092)})
    assert nodes.notes == []


@pytest.mark.parametrize("address", [("Gate", 19_092), ("gate", 19_094)])
def test_a_node_that_advertises_the_gateway_is_kept_from_clients(address: tuple[str, int]) -> None:
    nodes = Kept()
    nodes.listed({1: B})
    assert nodes.listed({1: B, 2: address}) == {1: ("gate", 19_094)}
    remedy = "that is this gateway; advertised.listeners must be the broker's own address"
    assert nodes.notes == [f"node 2 at {address[0]}:{address[1]} is kept from clients: {remedy}"]
    assert nodes.listed({1: address}) == {}
    assert nodes.listener(1).upstream == (B,)
    assert nodes.listed({2: ("gate", 19_095)}) == {2: ("gate", 19_095)}


def test_bootstrap_may_be_at_the_advertised_host() -> None:
    nodes = Kept(bootstrap=["gate:19092"])  # one machine, whose port 19092 leads to the broker
    assert nodes.listed({1: ("gate", 19_092)}) == {1: ("gate", 19_094)}


def test_a_node_that_moves_to_an_unknown_address_is_kept_from_clients() -> None:
    nodes = Kept(known_brokers=["k:9092"])
    nodes.listed({1: ("k", 9092)})
    assert nodes.listed({1: ("x", 9092)}) == {}


def test_there_are_no_more_nodes_than_configured(caplog: pytest.LogCaptureFixture) -> None:
    nodes = Kept()
    seen = nodes.listed({node: (f"h{node}", 9092) for node in range(25_000)})
    assert (len(seen), len(nodes), len(nodes.opened)) == (1_000, 1_000, 1_000)
    assert len(nodes.notes) == len(caplog.records) == 20
    assert nodes.notes[0].endswith("there are 1000 others; raise max_nodes if the cluster has more")
    assert set(nodes.listed({5: ("h5", 9092), 2_000: ("h", 1)})) == {5}


def test_there_are_no_more_nodes_than_ports() -> None:
    nodes = Kept(node_port_base=65_534)
    assert set(nodes.listed({100_000: B, 100_001: B, 100_002: B})) == {100_000, 100_001}
    assert nodes.notes[0].endswith("no port is free; lower node_port_base")


def test_a_node_is_gone_if_lists_lack_it_for_ten_minutes_and_no_client_is_connected() -> None:
    nodes = Kept(max_nodes=2)
    nodes.listed({1: B, 100_000: B})
    assert nodes.closed(100 * MINUTE) == []  # no list lacks it
    nodes.listed({1: B})
    nodes.named({1: B})
    assert nodes.closed(101 * MINUTE) == []
    assert nodes.closed(111 * MINUTE - 1) == []
    assert nodes.closed(111 * MINUTE, "node-100000") == []
    assert nodes.closed(112 * MINUTE, "node-1") == [(100_000, [0])]
    assert len(nodes) == 1
    assert nodes.listed({1: B, 100_001: B})[100_001] == ("gate", 19_093)


@pytest.mark.parametrize("how", ["listed", "named"])
def test_a_node_that_comes_back_in_time_keeps_its_port(how: str) -> None:
    nodes = Kept()
    nodes.listed({1: B, 2: B})
    nodes.listed({1: B})
    assert nodes.closed(1 * MINUTE) == []
    getattr(nodes, how)({1: B, 2: B})
    assert nodes.closed(100 * MINUTE) == []
    nodes.listed({1: B})
    assert nodes.closed(101 * MINUTE) == []
    assert nodes.closed(111 * MINUTE) == [(2, [])]


def test_a_list_without_nodes_is_part_of_an_error() -> None:
    nodes = Kept(known_brokers=["b:9092"])
    nodes.listed({1: B, 2: ("elsewhere", 9092)})
    notes = nodes.notes
    assert len(notes) == 1
    assert nodes.listed({}) == {}
    assert nodes.notes == notes
    assert nodes.closed(20 * MINUTE) == []
    assert nodes.closed(40 * MINUTE) == []
