"""The web site of one cluster: routes each request to what serves it."""

import logging
from typing import Any

from starlette.responses import JSONResponse

from sluicegate.broker import Receive, Scope, Send, WebServices
from sluicegate_pulsar.config import PulsarConfig, Web
from sluicegate_pulsar.web.delayed import DelayedDelivery
from sluicegate_pulsar.web.document import MAX_BODY
from sluicegate_pulsar.web.global_policy import is_global
from sluicegate_pulsar.web.gone import GonePolicies
from sluicegate_pulsar.web.http_errors import WebError
from sluicegate_pulsar.web.lookups import rewritten
from sluicegate_pulsar.web.new_topics import creating_nothing, refuse_creation
from sluicegate_pulsar.web.passing import (
    Asked,
    ClientGone,
    asked,
    pass_on,
    read_body,
    send_response,
    with_body,
)
from sluicegate_pulsar.web.rewritten_addresses import Translate, WebAddresses, translation
from sluicegate_pulsar.web.routes import Creation, Delayed, Deletable, Lookup, creation, route
from sluicegate_pulsar.web.upstream import Upstream

log = logging.getLogger("sluicegate.pulsar.web")

_ACCEPTED = frozenset({"GET", "POST", "DELETE"})


class PulsarSite:
    """A `broker.WebSite` for Pulsar.

    :param config: the cluster's entry, with `web` and `admin`.
    :param services: policies and facts of the gateway.
    :param translate: the gateway's URL in place of a broker's; from the facts of the cluster's front if None.
    :param timeout_s: longest time to wait for the next part of an answer or of a body, or for it to be taken.
    :param settling_s: how long a broker may take until a policy that it accepted shows.
    :raises ValueError: if `web` or `admin` is missing.
    """

    def __init__(
        self,
        config: PulsarConfig,
        services: WebServices,
        translate: Translate | None = None,
        timeout_s: float = 60.0,
        settling_s: float = 3.0,
    ) -> None:
        if config.web is None:
            raise ValueError("expected `web`")
        self._web: Web = config.web
        self._services = services
        self._addresses = WebAddresses(config, services.recall)
        self._translate = translate or translation(config, services.recall)
        self._upstream = Upstream(self._addresses, services.broker_tls, timeout_s)
        self._delayed = DelayedDelivery(services, self._upstream, settling_s)
        self._gone = GonePolicies(
            services, self._delayed, self._addresses.first, config.admin.token if config.admin else None
        )
        self._timeout_s = timeout_s

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return self._web.listen.host, self._web.listen.port

    async def watch(self) -> None:
        """Remove policies of topics and namespaces that are deleted at the broker, until cancelled."""
        await self._gone.watch()

    async def close(self) -> None:
        """Close the connections to the admin API."""
        await self._upstream.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            return
        began = False

        async def sending(message: Any) -> None:
            nonlocal began
            began = True
            await send(message)

        try:
            await self._serve(scope, receive, sending)
        except ClientGone:
            pass
        except WebError as error:
            reason = f"{error.reason} ({error.detail})" if error.detail else error.reason
            log.info("%s %s: %d %s", scope["method"], scope["path"], error.status, reason)
            if not began:
                # What follows a request that cannot be understood may be anything.
                headers = {"connection": "close"} if error.status == 400 else None
                await JSONResponse({"reason": error.reason}, error.status, headers)(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = self._asked(scope)
        about = route(request.path)
        if isinstance(about, Delayed) and request.method in _ACCEPTED:
            if not is_global(request, about):
                await self._serve_delayed(request, about, receive, send)
            elif request.method == "POST":
                body = await read_body(receive, MAX_BODY, self._timeout_s)
                await send_response(await self._delayed.set_global(request, about, body), send)
            else:
                await pass_on(request, self._upstream, self._timeout_s, receive, send)
        elif (created := creation(request.method, request.path)) is not None:
            await self._create(request, created, receive, send)
        elif isinstance(about, Deletable) and request.method == "DELETE":
            await send_response(await self._delayed.delete_owner(request, about), send)
        elif isinstance(about, Lookup) and request.method == "GET":
            await self._look_up(request, send)
        else:
            await pass_on(request, self._upstream, self._timeout_s, receive, send)

    def _asked(self, scope: Scope) -> Asked:
        request, mark = asked(scope, self._web.advertised_host, self._addresses.first)
        return request if mark is None else request.for_broker(self._addresses.known(mark))

    async def _serve_delayed(self, request: Asked, target: Delayed, receive: Receive, send: Send) -> None:
        if request.method == "GET":
            response, said = await self._delayed.get(request, target, request.flag("applied"))
            await send_response(response, send, said)
        elif request.method == "POST":
            body = await read_body(receive, MAX_BODY, self._timeout_s)
            await send_response(await self._delayed.set(request, target, body), send)
        else:
            await send_response(await self._delayed.delete(request, target), send)

    async def _create(self, request: Asked, created: Creation, receive: Receive, send: Send) -> None:
        """Pass on what may create a topic, unless policies refuse that."""
        resolver = self._services.resolver
        if request.method == "GET":
            request = creating_nothing(request, created, resolver)
        else:
            body = await read_body(receive, MAX_BODY, self._timeout_s)
            refuse_creation(created, body, resolver)
            receive = with_body(body, receive)
        await pass_on(request, self._upstream, self._timeout_s, receive, send)

    async def _look_up(self, request: Asked, send: Send) -> None:
        """Pass a lookup on and put the gateway's addresses into the response."""
        headers = [each for each in request.headers if each[0] != b"accept-encoding"]
        headers.append((b"accept-encoding", b"identity"))
        upstream = self._upstream
        response = await upstream.send(request.origin, request.method, request.target, headers)
        moved = upstream.redirected(response, request.origin + request.target, request.gateway)
        whole = await upstream.read(response)
        if moved is not None:
            whole = whole.with_header(b"location", moved)
        content = None
        if whole.accepted:
            content = rewritten(whole.content, self._translate, lambda url: self._own(request, url))
        await send_response(whole, send, content)

    def _own(self, request: Asked, url: str) -> str | None:
        return request.gateway if self._addresses.known(url) is not None else None
