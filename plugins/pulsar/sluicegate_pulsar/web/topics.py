"""The topics of a namespace whose fixed delay changes: each can have a longest delay of its own."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote

from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import EffectivePolicies, Level, TopicName
from sluicegate_pulsar.web import document
from sluicegate_pulsar.web.document import FIXED, MAX
from sluicegate_pulsar.web.http_errors import WebError
from sluicegate_pulsar.web.passing import Asked
from sluicegate_pulsar.web.routes import whole_topic
from sluicegate_pulsar.web.upstream import LARGEST_LIST, MAX_RESPONSE, Upstream

log = logging.getLogger("sluicegate.pulsar.web")

_MOST = 500
"""Topics of a namespace that are checked at the broker; for others only the gateway's own policies count."""
_AT_ONCE = 8


class TopicsOfNamespace:
    """Checks a namespace's topics with the credentials of the caller that changes it.

    :param request: the change.
    :param namespace: its name, `tenant/namespace`.
    :param upstream: the broker.
    :param resolver: the policies of the gateway, now.
    """

    def __init__(self, request: Asked, namespace: str, upstream: Upstream, resolver: Resolver) -> None:
        self._request = request
        self._namespace = namespace
        self._upstream = upstream
        self._resolver = resolver

    async def refuse_shorter(self, fixed_ms: int) -> None:
        """Refuse a fixed delay that a topic's longest delay, set at the broker itself, would refuse.

        :raises WebError: with the topic that stands in the way.
        """
        async for topic, native in self._natives():
            max_ms = document.max_of(native)
            if 0 < max_ms < fixed_ms and MAX not in self._resolver.settings(topic, Level.TOPIC):
                raise too_short(topic.full, max_ms, fixed_ms)

    async def settle(self, fixed_ms: int) -> None:
        """Give the broker the longest delays that the gateway keeps, or none while a delay is fixed.

        :raises WebError: if the broker does not take one.
        """
        async for topic, native in self._natives():
            own = self._resolver.settings(topic, Level.TOPIC).get(MAX)
            if own is None:
                continue
            max_ms = 0 if fixed_ms else int(own.value)
            if document.max_of(native) != max_ms:
                given = json.dumps(document.with_max(native, max_ms)).encode()
                response = await self._call("POST", path_of(topic, "/delayedDelivery"), given)
                if not response.accepted:
                    raise WebError(
                        409, f"the broker answered {response.status} for the policy of {topic.full}"
                    )

    async def _natives(self) -> AsyncIterator[tuple[TopicName, Mapping[str, Any]]]:
        """The topics that inherit the fixed delay, and the policies that they have at the broker itself."""
        topics = [
            topic
            for topic in await self._listed()
            if FIXED not in self._resolver.settings(topic, Level.TOPIC)
        ]
        for start in range(0, len(topics), _AT_ONCE):
            some = topics[start : start + _AT_ONCE]
            responses = await asyncio.gather(
                *(self._call("GET", path_of(topic, "/delayedDelivery")) for topic in some)
            )
            for topic, response in zip(some, responses, strict=True):
                native = document.read_native(response.content) if response.accepted else None
                if native is not None:
                    yield topic, native

    async def _listed(self) -> list[TopicName]:
        path = f"/admin/v2/persistent/{quote(self._namespace)}"
        topics: set[str] = set()
        for each in (path, f"{path}/partitioned"):
            response = await self._call("GET", each, most=LARGEST_LIST)
            names = json.loads(response.content) if response.accepted else []
            topics.update(whole_topic(name).full for name in names)
        if len(topics) > _MOST:
            log.warning(
                "%s has %d topics; only %d were checked for longest delays of their own",
                self._namespace,
                len(topics),
                _MOST,
            )
        return [whole_topic(name) for name in sorted(topics)[:_MOST]]

    async def _call(self, method: str, path: str, body: bytes | None = None, most: int = MAX_RESPONSE) -> Any:
        request = self._request
        return await self._upstream.call(request.origin, method, path, request.headers, body, most)


def applied_ms(effective: EffectivePolicies) -> int:
    """The fixed delay that is applied, not only observed, in ms; 0 for none."""
    if effective.observes(FIXED):
        return 0
    return int(effective.number(FIXED))


def too_short(name: str, max_ms: int, fixed_ms: int) -> WebError:
    """The answer where a broker would refuse all messages of a topic."""
    return WebError(
        409,
        f"the broker refuses messages of {name} that are delayed by more than {max_ms} ms, so with a fixed "
        f"delay of {fixed_ms} ms it would refuse all: raise or remove maxDeliveryDelayInMillis there",
    )


def path_of(topic: TopicName, rest: str) -> str:
    """Where something of a topic is in the admin API.

    :param rest: behind the topic's own path.
    """
    domain, _, path = topic.full.partition("://")
    namespace, local = topic.namespace, path.removeprefix(f"{topic.namespace}/")
    return f"/admin/v2/{domain}/{quote(namespace)}/{quote(local, safe='')}{rest}"
