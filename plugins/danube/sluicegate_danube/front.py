"""One Danube cluster behind the gate: its listeners, its sessions, and the gate's own questions to it."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from sluicegate.broker import Listener, Services
from sluicegate.broker_ports import FACT, Address, BrokerPorts
from sluicegate.engine.gate import Gate
from sluicegate_danube.brokers import brokers_of
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.lookup import Lookup
from sluicegate_danube.method_map import INTERNAL_HEADER, METHOD_MAP, TOPIC_LOOKUP
from sluicegate_danube.principals import principal
from sluicegate_danube.resuming import ProducerResumer
from sluicegate_danube.subscriptions import SubscriptionLists
from sluicegate_grpc.calls import Calls
from sluicegate_grpc.edits import Edits
from sluicegate_grpc.splice import GrpcSession, Shared, held_by
from sluicegate_grpc.splice.frames import PREFACE, SETTINGS, frame
from sluicegate_grpc.splice.resuming import Aliases
from sluicegate_grpc.unknown import UnknownMethods

log = logging.getLogger("sluicegate.danube")
"""Under the gateway's own logger, which alone has a handler."""

_MAIN = "bootstrap"
_MAX_STAND_INS = 3
"""Brokers that are tried in place of one that cannot be connected."""
_LIST_VALID_NS = 1_000_000_000
"""A subscription made at the broker itself within this time may still be taken for a new one."""


@dataclass(frozen=True, slots=True)
class _ListSubscriptions:
    """The question to the admin API: which subscriptions a topic has."""

    topic: str


class DanubeFront:
    """A `broker.ReachingFront` for Danube."""

    greeting = PREFACE + frame(SETTINGS, 0, 0)
    """A broker answers it with its own SETTINGS, before any call."""

    def __init__(self, config: DanubeConfig) -> None:
        self._config = config
        self._lists = SubscriptionLists(config)
        self._asking: dict[str, asyncio.Task[None]] = {}
        self._services: Services | None = None
        self._shared: Shared | None = None
        self._brokers: BrokerPorts | None = None
        self._lookup: Lookup | None = None

    async def start(self, services: Services) -> None:
        """Listen for the brokers that are known."""
        config = self._config
        self._services = services
        self._lists.tls = services.broker_tls
        self._brokers = brokers = brokers_of(config, services.recall(FACT))
        self._lookup = Lookup(brokers, config.route, config.tls.client is not None, _unknown_broker)
        methods = METHOD_MAP.sized_by(config.size_of)
        self._shared = Shared(
            services,
            Calls(
                methods, _gates_of(services), config.ghost_release * 1_000_000, list_valid_ns=_LIST_VALID_NS
            ),
            methods,
            config.max_hold * 1_000_000,
            config.http2.limits,
            rewrites={TOPIC_LOOKUP: self._lookup.rewrite},
            looked_up=self._looked_up,
            route=lambda broker: _alone(brokers.target(broker)),
            question=_ListSubscriptions,
            principal=principal,
            edits=Edits(config.request_metadata.put, frozenset(config.request_metadata.take)),
            forbidden=frozenset({INTERNAL_HEADER}),
            unknown_methods=UnknownMethods(config.unknown_methods, _unknown_method),
            broker=f"broker {config.name}",
        )
        if config.resume_producers:
            calls = self._shared.calls
            resumer = ProducerResumer(config, brokers, self._lookup, calls.is_reliable, services.spawn)
            self._shared.aliases = Aliases(resumer)
            calls.owners.keep_ns = config.max_hold * 1_000_000
        self._shared.calls.owners.on_change = _owner_changed
        listen = config.listen
        await services.listen(Listener(_MAIN, listen.host, listen.port, ()))
        if config.route == "metadata":
            return
        for key, value, listener in brokers.start():
            services.remember(key, value)
            await services.listen(listener)
        brokers.on_new = self._open

    def _looked_up(self, topic: str, answer: bytes, now_ns: int) -> None:
        """A broker has said who serves a topic."""
        owner = self._lookup.owner(answer) if self._lookup is not None else ""
        if owner:
            self._started.calls.owners.learned(topic, owner, now_ns)

    @property
    def _started(self) -> Shared:
        if self._shared is None:
            raise RuntimeError("the front has not been started")
        return self._shared

    def _open(self, key: str, value: str, listener: Listener) -> None:
        """A broker is new: remember its place for the next start, and listen for it."""
        if self._services is not None:
            self._services.remember(key, value)
            self._services.spawn(self._services.listen(listener))

    def session(self, listener: Listener, peer: str, now_ns: int) -> GrpcSession:
        """A session for a new client connection."""
        if self._brokers is None:
            raise RuntimeError("the front has not been started")
        routes = self._config.route == "metadata"
        addresses = self._brokers.stands_for(listener)
        others = self._brokers.known if len(addresses) == 1 and not routes else ()
        stand_ins = tuple(each for each in others if each not in addresses)[:_MAX_STAND_INS]
        return GrpcSession(self._started, peer, addresses, routes=routes, stand_ins=stand_ins)

    def reached(self) -> None:
        """The broker answers: the front has no questions of its own."""

    async def answer(self, question: object) -> object:
        """Answer a session's question; the admin API's silence is an answer too."""
        if not isinstance(question, _ListSubscriptions):
            raise TypeError(f"expected a question for subscriptions, got {question!r}")
        # One for all who ask meanwhile, and none of them may end it by losing patience.
        asking = self._asking.get(question.topic)
        if asking is None:
            asking = asyncio.ensure_future(self._list(question.topic))
            self._asking[question.topic] = asking
            asking.add_done_callback(lambda _: self._asking.pop(question.topic, None))
        await asyncio.shield(asking)
        return None

    async def _list(self, topic: str) -> None:
        shared = self._started
        found: list[str] | None = None
        asked_ns = time.monotonic_ns()
        try:
            found = await self._lists.of(topic)
        except Exception as error:  # noqa: BLE001 - unknown is a state that policies handle
            log.warning(
                "cannot list subscriptions of %s: %s; limits on subscriptions act by on_unknown", topic, error
            )
            shared.count("subscription_listing_failed")
        shared.calls.listed(topic, found, asked_ns, time.monotonic_ns())

    def tick(self, now_ns: int) -> None:
        """Once a second: release those of whom nothing was heard for too long."""
        if self._shared is not None:
            self._shared.calls.release_ghosts(now_ns)
            self._shared.calls.owners.release_silent(now_ns)

    def counters(self) -> Mapping[str, int]:
        """Event counters."""
        if self._shared is None or self._lookup is None:
            return {}
        calls = self._shared.calls
        return {
            **self._shared.counters(),
            "unknown_broker_refused": self._lookup.refused,
            "ghosts_released": calls.ghosts_released,
            "owner_changed": calls.owners.changes,
            "producers_resumed": self._shared.aliases.resumed if self._shared.aliases is not None else 0,
            "released_at_old_owner": calls.owners.released,
            "unknown_ids": calls.unknown_ids,
        }

    async def stop(self) -> None:
        """End the gate's own questions."""
        for task in tuple(self._asking.values()):
            task.cancel()
        await self._lists.close()


def _unknown_broker(broker: str) -> None:
    log.warning(
        "a lookup led to broker %r, which is not known, and was refused: if it is of this cluster, add "
        "it to known_brokers",
        broker,
    )


def _owner_changed(topic: str, before: str, owner: str) -> None:
    log.info("topic %s has moved from %s to %s", topic, before, owner)


def _unknown_method(path: str, passes: bool) -> None:
    if passes:
        log.warning("method %r is not known: its calls pass, and no policy holds for them", path)
        return
    log.warning(
        "method %r is not known: its calls are refused; unknown_methods can let its service pass", path
    )


def _gates_of(services: Services) -> Callable[[str, bool, int], Gate]:
    """Gives the gate of a topic: `(topic, exempt, now_ns)`."""
    gates = services.gates
    live, exempts = gates.live, gates.exempt

    def gate(topic: str, exempt: bool, now_ns: int) -> Gate:
        # <hot> Runs for every call.
        found = (exempts if exempt else live).get(topic)
        return found if found is not None else gates.get(topic, exempt, now_ns)

    return gate


def _alone(address: Address | None) -> tuple[Address, ...] | None:
    return (address,) if address is not None else None


held_by.enter()
