"""One Danube cluster behind the gateway: its listeners, sessions, and the gateway's own requests."""

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sluicegate.broker import Listener, Services
from sluicegate.broker.broker_ports import FACT, Address, BrokerPorts
from sluicegate.pacing.asked_once import AskedOnce
from sluicegate_danube.brokers import address_of
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.events import DanubeEvent
from sluicegate_danube.lookup import Lookup
from sluicegate_danube.method_map import INTERNAL_HEADER, METHOD_MAP, TOPIC_LOOKUP
from sluicegate_danube.principals import principal
from sluicegate_danube.resuming import ProducerResumer, renamed
from sluicegate_danube.subscriptions import SubscriptionLists
from sluicegate_grpc.proxy.front import GrpcFront
from sluicegate_grpc.proxy.splice import GrpcSession, Shared
from sluicegate_grpc.proxy.splice.resuming import Aliases, Resume

log = logging.getLogger("sluicegate.danube")
"""Under the gateway's own logger, which alone has a handler."""

_MAX_STAND_INS = 3
"""Brokers that are tried in place of one that cannot be connected."""
_LIST_VALID_NS = 1_000_000_000
"""A subscription made at the broker itself within this time may still be taken for a new one."""


@dataclass(frozen=True, slots=True)
class _ListSubscriptions:
    """The question to the admin API: which subscriptions a topic has."""

    topic: str


class DanubeFront(GrpcFront):
    """One Danube cluster."""

    _log = log
    _list_valid_ns = _LIST_VALID_NS

    def __init__(self, config: DanubeConfig) -> None:
        super().__init__(config, METHOD_MAP, principal)
        self._config = config
        self._lists = SubscriptionLists(config)
        self._asked = AskedOnce[None]()
        self._brokers: BrokerPorts
        self._lookup: Lookup
        self._resumer: ProducerResumer

    async def start(self, services: Services) -> None:
        """Listen for the brokers that are known."""
        self._lists.renewals = lambda: services.broker_tls_renewals
        self._brokers = brokers = BrokerPorts(self._config, services.recall(FACT), address_of)
        await super().start(services)
        if self._config.route == "metadata":
            return
        for key, value, listener in brokers.start():
            services.remember(key, value)
            await services.listen(listener)
        brokers.on_new = self._listen

    def equip(self, shared: Shared) -> None:
        """Add look-ups, routes, lists of subscriptions and what follows a topic to its new owner."""
        config, brokers = self._config, self._brokers
        self._lookup = Lookup(brokers, config.route, config.tls.client is not None, _unknown_broker)
        is_reliable = shared.calls.attachments.topics.is_reliable
        self._resumer = ProducerResumer(config, brokers, self._lookup, is_reliable)
        shared.rules.rewrites = {TOPIC_LOOKUP: self._lookup.rewrite}
        shared.brokers.looked_up = self._looked_up
        shared.brokers.route = lambda broker: _alone(brokers.target(broker))
        shared.brokers.question = _ListSubscriptions
        shared.rules.forbidden = frozenset({INTERNAL_HEADER})
        calls = shared.calls
        if config.resume_producers:
            shared.resume_producers(Aliases(renamed))
            calls.attachments.owners.keep_ns = config.max_hold * 1_000_000
        calls.attachments.owners.on_change = _owner_changed

    def _looked_up(self, topic: str, answer: bytes, now_ns: int) -> None:
        """A lookup has named the owner of a topic."""
        if owner := self._lookup.owner(answer):
            self._started.calls.attachments.owners.learned(topic, owner, now_ns)

    def heard(self, kind: str, content: Mapping[str, Any]) -> None:
        """A sibling has met a new broker."""
        if kind == FACT and (new := self._brokers.heard(content)):
            self._listen(*new)

    def _listen(self, key: str, value: str, listener: Listener) -> None:
        """A broker is new: remember its port for the next start, and listen for it."""
        services = self._started.services
        services.remember(key, value)
        services.spawn(services.listen(listener))

    def session(self, listener: Listener, peer: str, now_ns: int) -> GrpcSession:
        """A session for a new client connection."""
        shared = self._started
        routes = self._config.route == "metadata"
        addresses = self._brokers.stands_for(listener)
        others = self._brokers.known if len(addresses) == 1 and not routes else ()
        stand_ins = tuple(each for each in others if each not in addresses)[:_MAX_STAND_INS]
        return GrpcSession(shared, peer, addresses, routes=routes, stand_ins=stand_ins)

    async def answer(self, question: object) -> object:
        """Answer a session's question; the admin API's silence is an answer too."""
        if isinstance(question, Resume):
            return await self._resumer.resume(question)
        if not isinstance(question, _ListSubscriptions):
            raise TypeError(f"expected a question for subscriptions, got {question!r}")
        await self._asked.ask(question.topic, partial(self._list, question.topic))
        return None

    async def _list(self, topic: str) -> None:
        shared = self._started
        subscriptions: list[str] | None = None
        asked_ns = time.monotonic_ns()
        try:
            subscriptions = await self._lists.of(topic)
        except Exception as error:  # noqa: BLE001 - unknown is a state that policies handle
            log.warning(
                "cannot list subscriptions of %s: %s; limits on subscriptions act by on_unknown", topic, error
            )
            shared.count(DanubeEvent.SUBSCRIPTION_LISTING_FAILED)
        shared.calls.attachments.listed(topic, subscriptions, asked_ns, time.monotonic_ns())

    def tick(self, now_ns: int) -> None:
        """Once a second: release clients that were silent for too long."""
        super().tick(now_ns)
        if self._shared is not None:
            self._shared.calls.attachments.owners.release_silent(now_ns)

    def counters(self) -> Mapping[str, int]:
        """Event counters."""
        if self._shared is None:
            return {}
        owners, aliases = self._shared.calls.attachments.owners, self._shared.aliases
        return {
            **super().counters(),
            str(DanubeEvent.UNKNOWN_BROKER_REFUSED): self._lookup.refused,
            str(DanubeEvent.OWNER_CHANGED): owners.changes,
            str(DanubeEvent.PRODUCERS_RESUMED): aliases.resumed if aliases is not None else 0,
            str(DanubeEvent.RELEASED_AT_OLD_OWNER): owners.released,
        }

    async def stop(self) -> None:
        """End the gateway's own requests."""
        self._asked.cancel()
        self._resumer.cancel()
        await self._lists.close()


def _unknown_broker(broker: str) -> None:
    log.warning(
        "a lookup led to broker %r, which is not known, and was refused: if it is of this cluster, add "
        "it to known_brokers",
        broker,
    )


def _owner_changed(topic: str, before: str, owner: str) -> None:
    log.info("topic %s has moved from %s to %s", topic, before, owner)


def _alone(address: Address | None) -> tuple[Address, ...] | None:
    return (address,) if address is not None else None
