"""Reads, sets and removes the delayed-delivery policy of a topic or a namespace.

The broker is asked first, with the caller's own credentials, and its refusal stands: no caller can do here
what it could not do there. Only then the gateway's store changes.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any

from sluicegate.broker import PolicyRefusedError, PolicyUnavailableError, WebServices
from sluicegate.model import Level, Source
from sluicegate_pulsar.web import document, global_policy
from sluicegate_pulsar.web.document import FIELDS, FIXED, Wanted
from sluicegate_pulsar.web.http_errors import WebError
from sluicegate_pulsar.web.passing import Asked
from sluicegate_pulsar.web.routes import Delayed, Deletable
from sluicegate_pulsar.web.topics import TopicsOfNamespace, applied_ms, too_short
from sluicegate_pulsar.web.upstream import BrokerResponse, Upstream

log = logging.getLogger("sluicegate.pulsar.web")

_LOOK_AGAIN_S = 0.1


class DelayedDelivery:
    """Serves the `delayedDelivery` paths, and the removal of what has such a policy.

    :param services: the policies of the gateway.
    :param upstream: the broker.
    :param settling_s: how long a broker may take to apply an accepted topic policy, which it stores
        in a system topic.
    """

    def __init__(self, services: WebServices, upstream: Upstream, settling_s: float) -> None:
        self._services = services
        self._upstream = upstream
        self._settling_s = settling_s
        self._locks: dict[str, tuple[asyncio.Lock, list[None]]] = {}

    async def get(
        self, request: Asked, target: Delayed, applied: bool
    ) -> tuple[BrokerResponse, bytes | None]:
        """The policy of the level, or with `applied` the merged policy of all levels.

        :return: the broker's response, and the document to send in place of its own.
        :raises WebError: if the broker's answer cannot be read.
        """
        response = await self._call(request, "GET")
        if response.status not in (200, 204):
            return response, None
        resolver = self._services.resolver
        if applied:
            effective = resolver.resolve(target.topic, target.level)
            own = {field: value for field, value in effective.values.items() if field in FIELDS}
        else:
            settings = resolver.settings(target.topic, target.level)
            own = {field: settings[field].value for field in FIELDS if field in settings}
        said = document.merged(document.read_native(response.content), own)
        if said is None:
            return response, None
        return BrokerResponse(200, response.headers, b""), json.dumps(said).encode()

    async def set(self, request: Asked, target: Delayed, body: bytes) -> BrokerResponse:
        """Set the policy.

        :param body: the document; an empty one removes the policy.
        :return: the broker's response.
        :raises WebError: if it cannot be set, with the reason; nothing is changed then.
        """
        wanted = document.parse(body)
        if wanted is None:
            return await self._unset(request, target, "POST", body)
        self._refuse_locked(target, wanted)
        async with self._alone(target.topic.namespace):
            before = await self._native(request)
            if isinstance(before, BrokerResponse):
                return before
            if wanted.fixed_ms:
                wanted = document.completed(wanted, before)
            fixed_ms = self._fixed_after(target, wanted)
            given = document.with_max(wanted.native, 0) if fixed_ms else wanted.native
            response = await self._call(request, "POST", json.dumps(given).encode())
            if response.accepted:
                async with self._undoing(request, target, before):
                    if fixed_ms:
                        await self._refuse_ineffective(request, target, fixed_ms)
                    await self._change(request, target.level, target.name, wanted.changes())
                    await self._settle(request, target, wanted.native)
            return response

    async def set_global(self, request: Asked, target: Delayed, body: bytes) -> BrokerResponse:
        """Set the topic's global policy, which is the broker's alone.

        :return: the broker's response.
        :raises WebError: if the document asks for a fixed delay, or for less than the one that is applied.
        """
        fixed_ms = applied_ms(self._services.resolver.resolve(target.topic, target.level))
        return await self._call(request, "POST", global_policy.given(body, target, fixed_ms))

    async def delete(self, request: Asked, target: Delayed) -> BrokerResponse:
        """Remove the policy, at the gateway and at the broker.

        :return: the broker's response.
        :raises WebError: if the store cannot be written.
        """
        return await self._unset(request, target, "DELETE", None)

    async def delete_owner(self, request: Asked, owner: Deletable) -> BrokerResponse:
        """Delete a topic, a namespace or a tenant, and here its policies, as the broker does there.

        :return: the broker's response.
        :raises WebError: if the store cannot be written.
        """
        async with self._alone(owner.namespace):
            response = await self._call(request, "DELETE")
            if response.accepted:
                resolver = self._services.resolver
                for level in (Level.TOPIC, Level.NAMESPACE):
                    for name in resolver.names(level, Source.STORE, FIELDS):
                        if owner.covers(level, name):
                            await self._change(request, level, name, dict.fromkeys(FIELDS))
            return response

    async def has_policy(self, request: Asked, target: Delayed) -> bool | None:
        """Whether the broker has a policy at this level; None if its response does not tell.

        :param request: a GET of it.
        :raises WebError: if the broker cannot be reached.
        """
        response = await self._call(request, "GET")
        if response.status == 404:
            return False if b'"reason"' in response.content else None  # else it is not Pulsar that answers
        if not response.accepted:
            return None
        if document.read_native(response.content) is not None:
            return True
        # What answers with nothing is a broker if it knows the applied policy, or the namespace's others.
        about = request.path if target.level is Level.TOPIC else request.path.removesuffix("/delayedDelivery")
        whole = await self._call(replace(request, path=about, query="applied=true"), "GET")
        return False if whole.accepted and document.read_native(whole.content) else None

    async def forget_without_policy(self, request: Asked, target: Delayed) -> None:
        """Remove a policy from the store, if the broker has none beside it.

        :param request: a GET of it.
        :raises WebError: if the broker cannot be reached, or the store cannot be written.
        """
        async with self._alone(target.topic.namespace):
            if await self.has_policy(request, target) is False:
                await self._change(request, target.level, target.name, dict.fromkeys(FIELDS))
                log.info("the broker has no policy of %s any more: its fixed delay is removed", target.name)

    async def _unset(
        self, request: Asked, target: Delayed, method: str, body: bytes | None
    ) -> BrokerResponse:
        async with self._alone(target.topic.namespace):
            response = await self._call(request, method, body)
            if response.accepted:
                await self._change(request, target.level, target.name, dict.fromkeys(FIELDS))
                await self._settle(request, target, None)
            return response

    # -- the broker ---------------------------------------------------------------------------------

    async def _call(self, request: Asked, method: str, body: bytes | None = None) -> BrokerResponse:
        return await self._upstream.call(request.origin, method, request.target, request.headers, body)

    async def _native(self, request: Asked) -> Mapping[str, Any] | BrokerResponse | None:
        """The broker's policy at this level; its response if it shows the caller none."""
        response = await self._call(request, "GET")
        if response.status in (200, 204):
            return document.read_native(response.content)
        # A broker may show no policy and still accept one.
        return None if response.status == 404 else response

    @asynccontextmanager
    async def _undoing(
        self, request: Asked, target: Delayed, before: Mapping[str, Any] | None
    ) -> AsyncIterator[None]:
        """Restore broker and store, if a later step fails."""
        settings = self._services.resolver.settings(target.topic, target.level)
        stored = {name: each.value for name, each in settings.items() if each.source is Source.STORE}
        try:
            yield
        except BaseException:
            with suppress(WebError):
                if before is None:
                    await self._call(request, "DELETE")
                else:
                    await self._call(request, "POST", json.dumps(before).encode())
            with suppress(WebError):
                await self._change(
                    request, target.level, target.name, {field: stored.get(field) for field in FIELDS}
                )
            raise

    async def _refuse_ineffective(self, request: Asked, target: Delayed, fixed_ms: int) -> None:
        """Refuse a fixed delay where the broker would refuse the messages that carry it.

        :raises WebError: with the policy that prevents it.
        """
        if target.level is Level.NAMESPACE:
            await self._topics(request, target).refuse_shorter(fixed_ms)
            return
        url = f"{request.path}?applied=true"
        clock = asyncio.get_running_loop().time
        until = clock() + self._settling_s
        while True:
            response = await self._upstream.call(request.origin, "GET", url, request.headers)
            native = document.read_native(response.content) if response.accepted else None
            max_ms = document.max_of(native or {})
            if not 0 < max_ms < fixed_ms:
                return
            if clock() >= until:
                raise too_short(target.name, max_ms, fixed_ms)
            await asyncio.sleep(_LOOK_AGAIN_S)

    async def _settle(self, request: Asked, target: Delayed, native: Mapping[str, Any] | None) -> None:
        """Bring the broker's policy in line with the policies in force.

        :param native: what the client gave at this level, if anything.
        :raises WebError: if the broker refuses it.
        """
        fixed_ms = applied_ms(self._services.resolver.resolve(target.topic, target.level))
        if fixed_ms and native is not None and document.max_of(native):
            response = await self._call(request, "POST", json.dumps(document.with_max(native, 0)).encode())
            if not response.accepted:
                raise WebError(
                    502, f"the broker answered {response.status} when its longest delay was removed"
                )
        if target.level is Level.NAMESPACE:
            await self._topics(request, target).settle(fixed_ms)

    def _topics(self, request: Asked, target: Delayed) -> TopicsOfNamespace:
        return TopicsOfNamespace(request, target.topic.namespace, self._upstream, self._services.resolver)

    # -- the gateway's own policies -----------------------------------------------------------------

    def _fixed_after(self, target: Delayed, wanted: Wanted) -> int:
        """The fixed delay that applies at this level after the change, in ms; 0 for none."""
        resolver = self._services.resolver
        effective = resolver.resolve(target.topic, target.level)
        if wanted.fixed_ms is None:
            effective = resolver.resolve(target.topic, Level(target.level - 1))
        else:
            effective = replace(effective, values={**effective.values, FIXED: wanted.fixed_ms})
        return applied_ms(effective)

    def _refuse_locked(self, target: Delayed, wanted: Wanted) -> None:
        resolver = self._services.resolver
        for field, value in wanted.changes().items():
            lock = resolver.lock(target.topic, target.level, field)
            if lock is not None and value != lock.value:
                raise WebError(409, f"{field} is locked in the gateway's configuration ({lock.location})")

    async def _change(self, request: Asked, level: Level, name: str, changes: Mapping[str, object]) -> None:
        actor = f"web client {request.client}"
        try:
            await self._services.change(level, name, changes, actor)
        except PolicyRefusedError as error:
            raise WebError(412, str(error)) from None
        except PolicyUnavailableError as error:
            raise WebError(503, "the policy store cannot be written now: try again", str(error)) from None

    @asynccontextmanager
    async def _alone(self, namespace: str) -> AsyncIterator[None]:
        """Serialize changes in each namespace, or broker and store could diverge."""
        lock, users = self._locks.setdefault(namespace, (asyncio.Lock(), []))
        users.append(None)
        try:
            async with lock:
                yield
        finally:
            users.pop()
            if not users:
                del self._locks[namespace]
