"""The part of Pulsar's admin API that a gateway uses: topics and backlogs, subscriptions, delays, brokers."""

import json
from collections.abc import Callable

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.reference.broker import Broker, Settings
from sluicegate_pulsar.reference.broker_errors import RefusedError
from sluicegate_pulsar.reference.policies import DelayedDelivery
from sluicegate_pulsar.reference.topic_names import Name, parse_name

_DONE = 204
_STATUS: dict[int, int] = {pb.INVALID_TOPIC_NAME: 412, pb.TOPIC_NOT_FOUND: 404, pb.NOT_ALLOWED_ERROR: 409}
"""How Pulsar's admin API answers what its binary protocol has codes for."""
_NAMESPACE = "{tenant}/{namespace}"
_TOPIC = f"{{domain}}/{_NAMESPACE}/{{topic}}"
_MAX_PARTITIONS = 1_000


def make_app(broker: Broker) -> Starlette:
    """Create the application.

    :param broker: the broker that it shows and changes; it runs on the same event loop.
    """
    topics, delays = _Topics(broker), _Delays(broker)
    cluster = broker.settings.cluster

    async def clusters(request: Request) -> Response:
        return JSONResponse([cluster])

    async def brokers(request: Request) -> Response:
        return JSONResponse([broker.admin_url.removeprefix("http://")])

    async def configuration(request: Request) -> Response:
        return JSONResponse(_configuration(broker.settings))

    async def health(request: Request) -> Response:
        return PlainTextResponse("ok")

    admin = "/admin/v2"
    each = ["GET", "POST", "DELETE"]
    routes = [
        Route(f"{admin}/clusters", clusters),
        Route(f"{admin}/brokers", brokers),
        Route(f"{admin}/brokers/health", health),
        Route(f"{admin}/brokers/configuration/runtime", configuration),
        Route(f"{admin}/brokers/{{cluster}}", brokers),
        Route(f"{admin}/namespaces/{_NAMESPACE}/delayedDelivery", delays.of_namespace, methods=each),
        Route(f"{admin}/{_TOPIC}", topics.made, methods=["PUT"]),
        Route(f"{admin}/{_TOPIC}/delayedDelivery", delays.of_topic, methods=each),
        Route(f"{admin}/{{domain}}/{_NAMESPACE}", topics.listed),
        Route(f"{admin}/{_TOPIC}/partitions", topics.partitions, methods=["GET", "PUT"]),
        Route(f"{admin}/{_TOPIC}/stats", topics.stats),
        Route(f"{admin}/{_TOPIC}/subscriptions", topics.subscriptions),
        Route(f"{admin}/{_TOPIC}/unload", topics.unload, methods=["PUT"]),
        Route(f"/lookup/v2/topic/{_TOPIC}", topics.lookup),
    ]
    errors = {RefusedError: _refused, ValueError: _malformed}
    tokens = Middleware(_Tokens, tokens=frozenset(broker.settings.tokens))
    return Starlette(routes=routes, exception_handlers=errors, middleware=[tokens])


class _Topics:
    """Topics in the admin API."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def listed(self, request: Request) -> Response:
        """Names of the topics of a namespace."""
        prefix = f"{request.path_params['domain']}://"
        matching = self._broker.topics_of(_namespace_of(request))
        return JSONResponse([topic.name.full for topic in matching if topic.name.full.startswith(prefix)])

    async def made(self, request: Request) -> Response:
        """Create a topic without partitions."""
        name = _name_of(request)
        if name.full in self._broker.topics:
            raise RefusedError(pb.NOT_ALLOWED_ERROR, "This topic already exists")
        self._broker.topic(name.full)
        return Response(status_code=_DONE)

    async def partitions(self, request: Request) -> Response:
        """How many partitions a topic has; 0 for one without. PUT creates a partitioned one."""
        if request.method != "PUT":
            # Clients that look a topic up over HTTP may allow its creation; then it need not exist.
            may_be_made = request.query_params.get("checkAllowAutoCreation") == "true"
            name = _name_of(request) if may_be_made else _existing(self._broker, request)
            return JSONResponse({"partitions": self._broker.partitions.get(name.full, 0)})
        count = json.loads(await request.body())
        if not isinstance(count, int) or not 0 < count <= _MAX_PARTITIONS:
            return _failed(406, f"Number of partitions should be 1 to {_MAX_PARTITIONS}, not {count!r}")
        self._broker.make_partitions(_name_of(request), count)
        return Response(status_code=_DONE)

    async def subscriptions(self, request: Request) -> Response:
        """Names of a topic's subscriptions."""
        return JSONResponse(self._broker.subscriptions_of(_existing(self._broker, request)))

    async def stats(self, request: Request) -> Response:
        """The backlog of a topic, and that it has no quota; Pulsar's statistics have many more fields."""
        topic = self._broker.topics.get(_existing(self._broker, request).full)
        if topic is None:
            return _failed(404, "Topic is partitioned: expected one of its partitions")
        backlogs = {
            name: {"msgBacklog": subscription.backlog} for name, subscription in topic.subscriptions.items()
        }
        return JSONResponse(
            {"backlogSize": topic.backlog_bytes, "backlogQuotaLimitSize": -1, "subscriptions": backlogs}
        )

    async def unload(self, request: Request) -> Response:
        """Close all producers and consumers."""
        self._broker.unload(_existing(self._broker, request))
        return Response(status_code=_DONE)

    async def lookup(self, request: Request) -> Response:
        """The owner of a topic: always this broker."""
        _name_of(request)
        service = self._broker.service_url
        lookup = {
            "brokerUrl": service,
            "brokerUrlSsl": "",  # the C++ client crashes if there is no TLS address at all
            "httpUrl": self._broker.admin_url,
            "nativeUrl": service,
        }
        return JSONResponse(lookup)


class _Delays:
    """Delayed-delivery policies in the admin API."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def of_namespace(self, request: Request) -> Response:
        """Policy of a namespace."""
        policies = self._broker.namespace_delays
        return await self._answer(request, policies, _namespace_of(request), lambda: None)

    async def of_topic(self, request: Request) -> Response:
        """Policy of a topic; with `applied=true` the effective one, from whatever level."""
        name = _existing(self._broker, request)
        policies = self._broker.topic_delays
        applied = request.query_params.get("applied") == "true"
        return await self._answer(
            request, policies, name.parent, lambda: self._broker.delay_of(name) if applied else None
        )

    async def _answer(
        self,
        request: Request,
        policies: dict[str, DelayedDelivery],
        key: str,
        otherwise: Callable[[], DelayedDelivery | None],
    ) -> Response:
        """Get, set or remove one policy.

        :param otherwise: the answer where none is set.
        """
        if request.method in ("GET", "HEAD"):
            policy = policies.get(key) or otherwise()
            return JSONResponse(policy.to_json()) if policy is not None else Response()
        body = await request.body() if request.method == "POST" else b""
        if body:
            policies[key] = DelayedDelivery.from_json(json.loads(body))
        else:  # Pulsar treats an empty POST as a removal
            policies.pop(key, None)
        self._broker.delays_changed()
        return Response(status_code=_DONE)


class _Tokens:
    """Admits only requests with a valid token, if there are tokens."""

    def __init__(self, app: ASGIApp, tokens: frozenset[str]) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 401 or pass the request on."""
        app = self._app
        if self._tokens and scope["type"] == "http":
            given = Request(scope).headers.get("authorization", "").removeprefix("Bearer ")
            if given not in self._tokens:
                app = _failed(401, "HTTP 401 Unauthorized")
        await app(scope, receive, send)


def _configuration(settings: Settings) -> dict[str, str]:
    """The broker's settings under Pulsar's names; all values are strings, as in Pulsar."""
    return {
        "clusterName": settings.cluster,
        "delayedDeliveryEnabled": "true",
        "delayedDeliveryMaxDelayInMillis": str(settings.max_delay_ms),
        "delayedDeliveryTickTimeMillis": str(settings.tick_ms),
        "isDelayedDeliveryDeliverAtTimeStrict": str(settings.strict).lower(),
        "maxMessageSize": str(settings.max_message_size),
    }


def _namespace_of(request: Request) -> str:
    return f"{request.path_params['tenant']}/{request.path_params['namespace']}"


def _name_of(request: Request) -> Name:
    """:raises RefusedError: if the path names no topic."""
    params = request.path_params
    return parse_name(f"{params['domain']}://{_namespace_of(request)}/{params['topic']}")


def _existing(broker: Broker, request: Request) -> Name:
    """:raises RefusedError: if the path names no existing topic."""
    name = _name_of(request)
    if name.full not in broker.topics and name.full not in broker.partitions:
        raise RefusedError(pb.TOPIC_NOT_FOUND, f"Topic {name.full} not found")
    return name


def _failed(status: int, reason: str) -> Response:
    return JSONResponse({"reason": reason}, status_code=status)


async def _refused(request: Request, error: Exception) -> Response:
    code = error.code if isinstance(error, RefusedError) else pb.UNKNOWN_ERROR
    return _failed(_STATUS.get(code, 500), str(error))


async def _malformed(request: Request, error: Exception) -> Response:
    return _failed(400, str(error))
