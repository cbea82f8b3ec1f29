"""The brokers of a cluster and the address under which clients reach each of them through the gateway."""

from collections.abc import Callable, Mapping

from sluicegate.broker import Listener

Address = tuple[str, int]


class Nodes:
    """Node id -> broker address, and node id -> advertised address.

    The advertised port is `node_port_base + node id`, so it is the same after every restart and needs no
    agreement between gateways.
    """

    def __init__(self, advertised_host: str, listen_host: str, port_base: int) -> None:
        self._advertised_host = advertised_host
        self._listen_host = listen_host
        self._port_base = port_base
        self._upstream: dict[int, Address] = {}
        self.changes = 0
        """How often a node was new or had moved."""
        self.on_change: Callable[[Listener], None] = lambda listener: None
        """Called for a node that is new or has moved; set by the front."""

    def __len__(self) -> int:
        return len(self._upstream)

    def advertised(self, node_id: int, host: str, port: int) -> Address:
        """The address that clients get instead of a broker's own.

        :param node_id: the broker's id; if negative there is none, and its address is left alone.
        :param host: the broker's own address, which is remembered.
        """
        if node_id < 0:
            return host, port
        self.learn({node_id: (host, port)})
        return self._advertised_host, self._port_base + node_id

    def learn(self, nodes: Mapping[int, Address]) -> None:
        """Remember brokers; `on_change` is called for each that is new or has moved."""
        for node_id, address in nodes.items():
            if node_id < 0 or self._upstream.get(node_id) == address or self._port_base + node_id > 65_535:
                continue
            self._upstream[node_id] = address
            self.on_change(self.listener(node_id))
            self.changes += 1

    def listener(self, node_id: int) -> Listener:
        """Where the gateway listens for one broker."""
        return Listener(
            f"node-{node_id}", self._listen_host, self._port_base + node_id, (self._upstream[node_id],)
        )
