"""The echoing broker room with a web site, which tells and sets the largest message of a topic."""

import json
from typing import Any, Literal

from tests.gateway.echo_plugin import EchoConfig, EchoDriver

from sluicegate import hookimpl
from sluicegate.broker import PolicyRefusedError, Receive, Scope, Send, WebServices
from sluicegate.model import Level, TopicName

POLICY = "max_message_size"


class SiteConfig(EchoConfig):
    system: Literal["site"]  # type: ignore[assignment]
    web_port: int | None = None


class Site:
    """`GET /TOPIC` tells the limit, `POST /TOPIC?VALUE` sets it, `DELETE /TOPIC` takes it away."""

    def __init__(self, config: SiteConfig, services: WebServices) -> None:
        self.address = ("127.0.0.1", config.web_port or 0)
        self._services = services

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        topic = scope["path"][1:]
        status, value = 200, scope["query_string"].decode() or None
        if scope["method"] != "GET":
            try:
                await self._services.change(Level.TOPIC, topic, {POLICY: value}, "the test")
            except PolicyRefusedError as error:
                status, value = 412, str(error)
        size = self._services.resolver.resolve(TopicName(topic, "")).number(POLICY)
        body = json.dumps({"size": size, "said": value, "facts": dict(self._services.recall(""))}).encode()
        await send({"type": "http.response.start", "status": status, "headers": []})
        await send({"type": "http.response.body", "body": body})

    async def watch(self) -> None:
        pass

    async def close(self) -> None:
        pass


class SiteDriver(EchoDriver):
    system = "site"
    config_model = SiteConfig  # type: ignore[assignment]

    def web(self, config: SiteConfig, services: WebServices) -> Any:
        return Site(config, services) if config.web_port is not None else None


@hookimpl
def sluicegate_broker() -> SiteDriver:
    return SiteDriver()
