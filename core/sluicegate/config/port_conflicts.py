"""Finds ports that a file assigns twice, and brokers that are listeners of the gateway itself.

Listeners, node ports, web listeners and the admin endpoint count.
"""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

from sluicegate.config.errors import Finding, Severity
from sluicegate.config.models import Admin, BrokerConfig, Ports
from sluicegate.config.reached import leads_to, target
from sluicegate.config.tree import Node
from sluicegate.config.validation import Path

_LAST = 65_535
_ALL = frozenset({"0.0.0.0", "::"})  # noqa: S104 - only compared with
_LOCAL = frozenset({"localhost", "127.0.0.1"})


@dataclass(frozen=True, slots=True)
class _Use:
    """Ports that one part of the gateway listens on."""

    ports: Ports
    user: str
    """The part of the gateway, for messages."""
    path: Path

    @property
    def last(self) -> int:
        return self.ports.first + self.ports.count - 1


def port_findings(
    root: Node, admin: Admin | None, brokers: Iterable[tuple[int, BrokerConfig]]
) -> Iterator[Finding]:
    """Find ports that the gateway would listen on twice or connect to itself on, or beyond the last port.

    :param root: the whole file.
    :param admin: the administrative endpoint; None if its section is invalid.
    :param brokers: the entries, each with its index.
    """
    brokers = tuple(brokers)
    uses = [use for use in _uses(admin, brokers) if use.ports.first > 0]
    for use in uses:
        if use.last > _LAST:
            yield _beyond(root, use)
    for first, second in combinations(uses, 2):
        yield from _shared(root, first, second)
    for index, broker in brokers:
        yield from _loops(root, index, broker, uses)


def unserved(root: Node, brokers: Iterable[BrokerConfig], severity: Severity = "error") -> Iterator[Finding]:
    """Find entries that a gateway cannot serve, as only clients and interceptors can do without `listen`.

    :param root: the whole file.
    :param brokers: all its entries.
    """
    for index, broker in enumerate(brokers):
        if not broker.has_listener:
            yield root.nearest(("brokers", index)).error(
                ("brokers", index),
                f"broker {broker.name!r} has no 'listen': it is for clients and interceptors, and a gateway "
                "cannot serve it",
                "for a gateway add 'listen: {host: 0.0.0.0, port: 19092}', where clients connect",
                severity,
            )


def _uses(admin: Admin | None, brokers: Iterable[tuple[int, BrokerConfig]]) -> list[_Use]:
    taken = [
        _Use(ports, f"{ports.noun} of broker {broker.name!r}", ("brokers", index, *ports.key))
        for index, broker in brokers
        if broker.has_listener
        for ports in broker.ports()
    ]
    if admin is None:
        return taken
    ports = Ports(admin.host, admin.port, 1, ("port",), "the admin endpoint")
    return [_Use(ports, "the admin endpoint", ("admin", "port")), *taken]


def _beyond(root: Node, use: _Use) -> Finding:
    first = use.ports.first
    is_certain = use.ports.is_certain or first > _LAST
    return root.nearest(use.path).error(
        use.path,
        f"{use.user} begin at {first} and end at {use.last}, beyond the last port {_LAST}",
        f"set {use.ports.key[-1]!r} to the first of {use.ports.count} free ports",
        "error" if is_certain else "warning",
    )


def _shared(root: Node, first: _Use, second: _Use) -> Iterator[Finding]:
    if not _is_same_host(first.ports.host, second.ports.host):
        return
    low, high = max(first.ports.first, second.ports.first), min(first.last, second.last)
    is_certain = first.ports.is_certain and second.ports.is_certain
    # Where both sets of nodes are unknown, one shared port at the edge of the ranges is no conflict yet.
    needed = 1 if first.ports.is_certain or second.ports.is_certain else 2
    if high - low + 1 < needed:
        return
    written = {use: root.child(*use.path) is not None for use in (first, second)}
    locations = {use: root.nearest(use.path) for use in (first, second)}
    other, shown = sorted((first, second), key=lambda use: (written[use], locations[use].line))
    verb = "is used" if is_certain else "may be used"
    origin = f"line {locations[other].line + 1}" if written[other] else "a default"
    port = f"{shown.ports.host}:{low}"
    message = f"port {port} {verb} twice: by {shown.user} and by {other.user}"
    remedy = f"the other use comes from {origin}: choose another port"
    if not is_certain:
        remedy += ", or set 'node_port_base' to the first of a range of free ports"
    yield locations[shown].error(shown.path, message, remedy, "error" if is_certain else "warning")


def _loops(root: Node, index: int, broker: BrokerConfig, uses: Iterable[_Use]) -> Iterator[Finding]:
    """Find addresses in `bootstrap` at which the gateway itself listens."""
    remedy = "name the addresses of the brokers themselves, or choose another port to listen on"
    for at, address in enumerate(broker.bootstrap):
        path = ("brokers", index, "bootstrap", at)
        for use in uses:
            if not use.ports.is_certain or not use.ports.first <= address.port <= use.last:
                continue
            if _leads_to(address.host, use.ports.host):
                message = f"{address} is {use.user} of this gateway: it would connect to itself"
                yield root.nearest(path).error(path, message, remedy)
                break
        else:
            if (address.host, address.port) == (broker.advertised_host, broker.listen.port):
                message = f"{address} looks like this gateway: it is the address that clients connect to"
                yield root.nearest(path).error(path, message, remedy, "warning")


def _leads_to(host: str, listening: str) -> bool:
    """Whether a host leads to a socket that listens on another, as far as that shows without DNS."""
    if host.lower() == listening.lower():
        return True
    with suppress(ValueError):
        return any(
            leads_to(target(each), bound) for each in _addresses(host) for bound in _addresses(listening)
        )
    return False


def _addresses(host: str) -> tuple[str, ...]:
    """The addresses of a host, if its name says them."""
    return ("127.0.0.1", "::1") if host.lower() == "localhost" else (host,)


def _is_same_host(first: str, second: str) -> bool:
    return first == second or bool({first, second} & _ALL) or {first, second} <= _LOCAL
