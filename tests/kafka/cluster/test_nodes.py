"""One advertised port for each broker, the same after every restart."""

from sluicegate.broker import Listener
from sluicegate_kafka.cluster.nodes import Nodes


def test_the_port_follows_from_the_node_id_alone() -> None:
    nodes = Nodes("gate.example", "0.0.0.0", 19_100)
    opened: list[Listener] = []
    nodes.on_change = opened.append

    assert nodes.advertised(2, "10.0.0.2", 9092) == ("gate.example", 19_102)
    assert nodes.advertised(2, "10.0.0.2", 9092) == ("gate.example", 19_102)
    assert opened == [Listener("node-2", "0.0.0.0", 19_102, (("10.0.0.2", 9092),))]
    assert nodes.changes == 1


def test_a_moved_node_is_announced_again() -> None:
    nodes = Nodes("gate", "127.0.0.1", 100)
    opened: list[Listener] = []
    nodes.on_change = opened.append
    nodes.learn({1: ("old", 1)})
    nodes.learn({1: ("new", 2)})
    assert [listener.upstream for listener in opened] == [(("old", 1),), (("new", 2),)]
    assert (len(nodes), nodes.listener(1).upstream) == (1, (("new", 2),))


def test_the_address_of_no_broker_is_left_unchanged() -> None:
    nodes = Nodes("gate", "127.0.0.1", 100)
    assert nodes.advertised(-1, "", -1) == ("", -1)
    assert len(nodes) == 0


def test_a_port_that_does_not_exist_is_never_opened() -> None:
    nodes = Nodes("gate", "127.0.0.1", 65_000)
    opened: list[Listener] = []
    nodes.on_change = opened.append
    nodes.learn({1_000: ("far", 9092)})
    assert opened == []
