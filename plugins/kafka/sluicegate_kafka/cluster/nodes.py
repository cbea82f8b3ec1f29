"""The brokers of a cluster and the address under which clients reach each of them through the gateway."""

import logging
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from sluicegate.broker import Listener
from sluicegate.config.known_brokers import AddressPatterns
from sluicegate.config.units import Address as Shown
from sluicegate_kafka.codec.addresses import Address
from sluicegate_kafka.config import KafkaConfig

log = logging.getLogger("sluicegate.kafka")

NODE = "node-"
"""Prefix of the names of listeners for a single node, whose id follows."""
_LAST_PORT = 65_535
_GONE_NS = 600_000_000_000
"""A node that the lists of nodes have not named for this long is gone, unless clients are connected to it."""
_MOST_NOTES = 20
"""Nodes that are refused, and nodes with a port of another number, which are named to operators."""


@dataclass(slots=True)
class _Node:
    address: Address
    number: int
    """Its port is `node_port_base` + this: its id where possible."""
    is_missing: bool = False
    """True if the latest list of all nodes did not name it."""
    missing_ns: int = 0
    """When it was first seen to be missing; 0 if it is not."""


class Nodes:
    """Node id -> broker address, and node id -> advertised address.

    The advertised port is `node_port_base + node id` wherever that is a free port, so it is the same after
    every restart and needs no agreement between gateways. Any other node gets the lowest free number instead
    of its id, and keeps it until it is gone.

    :param config: of the cluster.
    """

    def __init__(self, config: KafkaConfig) -> None:
        self._config = config
        self._known = AddressPatterns(config.known_brokers)
        self._nodes: dict[int, _Node] = {}
        self._taken = {config.listen.port - config.first_node_port}
        """Numbers in use; that of the listener for bootstrapping is none for a node."""
        self._owners: dict[int, int] = {}
        """Nodes whose ids are not the numbers of their ports, by number."""
        self._refused: dict[int, str] = {}
        """Nodes that clients are not told of, and why; no more than are named to operators."""
        self.changes = 0
        """How often a node was new or had moved."""
        self.on_change: Callable[[int], None] = lambda node_id: None
        """Called for a node that is new, has moved or gets another port; set by the front."""
        self.is_heard = False
        """Whether the change is one that a sibling told: telling it again would never end."""

    def __len__(self) -> int:
        return len(self._nodes)

    def named(self, nodes: Mapping[int, Address]) -> Mapping[int, Address]:
        """The addresses that clients get instead of brokers' own.

        :param nodes: brokers' own addresses by node id; they are remembered.
        :return: without the nodes that are refused.
        """
        # In the order of their ids: no number is given away that is the id of another one.
        seen = {node_id: self._advertised(node_id, nodes[node_id]) for node_id in sorted(nodes)}
        return {node_id: address for node_id, address in seen.items() if address is not None}

    def listed(self, nodes: Mapping[int, Address]) -> Mapping[int, Address]:
        """The same for a list of all nodes of the cluster: those that it lacks may be gone.

        An empty list is part of an error.
        """
        if not nodes:
            return {}
        for node_id, node in self._nodes.items():
            node.is_missing = node_id not in nodes
        self._refused = {node_id: text for node_id, text in self._refused.items() if node_id in nodes}
        return self.named(nodes)

    def recall(self, nodes: Mapping[int, Address], owners: Mapping[int, int]) -> None:
        """Take up the nodes from before the start.

        :param owners: nodes whose ids are not the numbers of their ports, by number. A node has several
            numbers if gateways that share a store met new nodes in different orders; it takes the lowest.
        """
        self._owners.update(owners)
        self.named(nodes)

    def heard(self, node_id: int, address: Address, number: int) -> None:
        """A sibling has seen a node. It gets the same port here, if it is new here and the port is free."""
        if node_id in self._nodes:
            return
        if number != node_id:
            self._owners.setdefault(number, node_id)
        self.is_heard = True
        try:
            self.named({node_id: address})
        finally:
            self.is_heard = False

    def owned(self, number: int, owner: int) -> None:
        """A sibling was first to give a number to a node: another one that has it here gets a new one."""
        self._owners[number] = owner
        for node_id, node in tuple(self._nodes.items()):
            if node.number == number and node_id != owner:
                del self._nodes[node_id]
                self._taken.discard(number)
                self.named({node_id: node.address})

    def gone(self, now_ns: int, connected: Callable[[], Container[str]]) -> Iterator[tuple[int, list[int]]]:
        """Forget the nodes that are gone, and free their ports.

        :param now_ns: monotonic time.
        :param connected: gives the names of listeners whose clients are connected.
        :return: the id of each, and the numbers that it had instead of it.
        """
        missing = [(node_id, node) for node_id, node in self._nodes.items() if node.is_missing]
        for _, node in missing:
            node.missing_ns = node.missing_ns or now_ns
        due = [each for each, node in missing if now_ns - node.missing_ns >= _GONE_NS]
        in_use = connected() if due else ()
        for node_id in due:
            if _name(node_id) not in in_use:
                self._taken.discard(self._nodes.pop(node_id).number)
                numbers = self._numbers(node_id)
                for number in numbers:
                    del self._owners[number]
                yield node_id, numbers

    def listener(self, node_id: int) -> Listener:
        """Where the gateway listens for one broker."""
        node = self._nodes[node_id]
        port = self._config.first_node_port + node.number
        return Listener(_name(node_id), self._config.listen.host, port, (node.address,))

    def number(self, node_id: int) -> int:
        """What follows `node_port_base` in a node's port."""
        return self._nodes[node_id].number

    @property
    def notes(self) -> list[str]:
        """What operators should know of single nodes."""
        others = [node_id for node_id, node in self._nodes.items() if node.number != node_id][:_MOST_NOTES]
        return [*self._refused.values(), *map(self._numbered, others)]

    def _advertised(self, node_id: int, address: Address) -> Address | None:
        node = self._nodes.get(node_id)
        if node is None or node.address != address:
            node = self._accept(node_id, address, node)
            if node is None:
                return None
        node.is_missing, node.missing_ns = False, 0
        return self._config.client_host, self._config.first_node_port + node.number

    def _accept(self, node_id: int, address: Address, known: _Node | None) -> _Node | None:
        """Remember a node that is new or has moved; None if it is refused."""
        number: int | None = None
        if not (reason := self._refusal(node_id, address)):
            number = self._free_number(node_id) if known is None else known.number
        if number is None:
            self._refuse(node_id, address, reason or "no port is free; lower node_port_base")
            return None
        self._refused.pop(node_id, None)
        self._nodes[node_id] = node = _Node(address, number)
        self._taken.add(number)
        if number != node_id:
            self._owners[number] = node_id
        self.changes += 1
        self.on_change(node_id)
        if known is None and number != node_id:
            log.info("%s", self._numbered(node_id))
        return node

    def _refusal(self, node_id: int, address: Address) -> str:
        """Why clients are not told of a node; empty if they are."""
        config = self._config
        if node_id < 0:
            return "its id is negative"
        if not config.writes_out(*address):
            if self._is_own(*address):
                return "that is this gateway; advertised.listeners must be the broker's own address"
            if config.known_brokers and not self._known.match(*address):
                return "known_brokers does not name it"
        if node_id not in self._nodes and len(self._nodes) >= config.max_nodes:
            return f"there are {config.max_nodes} others; raise max_nodes if the cluster has more"
        return ""

    def _is_own(self, host: str, port: int) -> bool:
        """Whether an address is one that the gateway advertises, or at which clients bootstrap."""
        config = self._config
        return host.lower() == config.client_host.lower() and port - config.first_node_port in self._taken

    def _free_number(self, node_id: int) -> int | None:
        """A number of a free port: one that the node had before, else its id, else the lowest."""
        end = _LAST_PORT - self._config.first_node_port + 1
        if len(self._nodes) >= end:
            return None
        for number in chain(self._numbers(node_id), (node_id,), range(end)):
            if number < end and number not in self._taken and self._owners.get(number, node_id) == node_id:
                return number
        return None

    def _numbers(self, node_id: int) -> list[int]:
        return sorted(number for number, owner in self._owners.items() if owner == node_id)

    def _refuse(self, node_id: int, address: Address, reason: str) -> None:
        if node_id in self._refused or len(self._refused) >= _MOST_NOTES:
            return
        text = f"node {node_id} at {Shown(*address)} is kept from clients: {reason}"
        self._refused[node_id] = text
        log.warning("%s", text)

    def _numbered(self, node_id: int) -> str:
        port = self._config.first_node_port + self._nodes[node_id].number
        return f"node {node_id} is reached at port {port}, as node_port_base + {node_id} is no free port"


def _name(node_id: int) -> str:
    return f"{NODE}{node_id}"
