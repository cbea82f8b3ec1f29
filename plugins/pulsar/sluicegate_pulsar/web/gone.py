"""Removes fixed delays of topics and namespaces that were deleted past the web listener.

Beside a delay that was set through the web listener the broker has a policy, which Pulsar deletes with the
topic or the namespace. Once it is gone, so is the delay here, though its topic may have been made again. A
delay of the command line stays, as it may be ahead of its topic, unless the broker had a policy beside it.
"""

import asyncio
import logging
from collections.abc import Iterator
from urllib.parse import quote

from sluicegate.broker import WebServices
from sluicegate.model import Level, Source, TopicName
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.names import topic_name
from sluicegate_pulsar.web.delayed import DelayedDelivery
from sluicegate_pulsar.web.document import FIELDS
from sluicegate_pulsar.web.http_errors import WebError
from sluicegate_pulsar.web.passing import Asked
from sluicegate_pulsar.web.routes import Delayed
from sluicegate_pulsar.web.topics import path_of
from sluicegate_pulsar.web.upstream import Headers

log = logging.getLogger("sluicegate.pulsar.web")

_EVERY_S = 30.0
_MOST = 500
"""Topics and namespaces that are looked at in one round; the next one goes on behind them."""
_ROUNDS = 2
"""How often a policy must be missing in a row: brokers tell a new policy of a topic some time later."""


class GonePolicies:
    """Looks every 30 s, as the gateway itself.

    :param services: the policies of the gateway.
    :param delayed: changes them.
    :param origin: scheme, host and port of the admin API.
    :param token: the gateway's own.
    """

    def __init__(
        self, services: WebServices, delayed: DelayedDelivery, origin: str, token: str | None
    ) -> None:
        self._services = services
        self._delayed = delayed
        self._origin = origin
        self._headers: Headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self._missing: dict[Delayed, int] = {}
        """For how many rounds there has been none, of what had a policy at this cluster's brokers."""
        self._at = 0

    async def watch(self) -> None:
        """Look until cancelled."""
        while True:
            await asyncio.sleep(_EVERY_S)
            try:
                await self.look()
            except WebError as error:
                log.debug("cannot look for deleted topics: %s", error.detail or error.reason)

    async def look(self) -> None:
        """Look once.

        :raises WebError: if the broker cannot be asked, or the store cannot be written.
        """
        targets = list(self._targets())
        self._missing = {target: rounds for target, rounds in self._missing.items() if target in set(targets)}
        self._at = self._at if self._at < len(targets) else 0
        chosen = targets[self._at : self._at + _MOST]
        self._at += _MOST
        for target in chosen:
            request = self._request(target)
            has_policy = await self._delayed.has_policy(request, target)
            if has_policy:
                self._missing[target] = 0
            elif has_policy is not None and target in self._missing:
                self._missing[target] += 1
                if self._missing[target] >= _ROUNDS:
                    await self._delayed.forget_without_policy(request, target)

    def _targets(self) -> Iterator[Delayed]:
        resolver = self._services.resolver
        for namespace in resolver.names(Level.NAMESPACE, Source.STORE, FIELDS):
            yield Delayed(Level.NAMESPACE, TopicName("", namespace))
        for name in resolver.names(Level.TOPIC, Source.STORE, FIELDS):
            try:
                yield Delayed(Level.TOPIC, topic_name(name))
            except ProtocolError:
                continue

    def _request(self, target: Delayed) -> Asked:
        if target.level is Level.TOPIC:
            path = path_of(target.topic, "/delayedDelivery")
        else:
            path = f"/admin/v2/namespaces/{quote(target.name)}/delayedDelivery"
        return Asked("GET", path, "", self._headers, self._origin, "", "deletion at the broker")
