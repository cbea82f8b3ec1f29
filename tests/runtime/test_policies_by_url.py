"""The policies of a gateway's admin API in another process; the API is real, over HTTP."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from tests.admin.lab import KEY, Supervised
from tests.waiting import until_so

from sluicegate.admin.resources import admin_routes
from sluicegate.client.open_policies import OpenPolicies
from sluicegate.embedded import PolicyEngine, PolicyUrlError
from sluicegate.model import Level, version_text
from sluicegate.net.http import HttpServer
from sluicegate.runtime import policies_by_url
from sluicegate.runtime.changing import wanted_for
from sluicegate.runtime.plugins import CHOICE
from sluicegate.runtime.served_policies import ServedPolicies
from sluicegate.store import Author

Handler = Callable[[Request], Awaitable[Response]]


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "kafka")
    monkeypatch.setattr(policies_by_url, "_FIRST_RETRY_NS", 10_000_000)
    monkeypatch.setattr(policies_by_url, "_LONGEST_RETRY_NS", 20_000_000)


class Gateway:
    """An admin API with a file and a store, whose answers can be replaced."""

    def __init__(self, directory: Path) -> None:
        self.supervised = Supervised(directory)
        self.requests = 0
        self.handler: Handler | None = None
        self._inner = Starlette(routes=admin_routes(self.supervised, KEY, self.supervised.callers))
        self.server: HttpServer | None = None
        self.port = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.requests += 1
        if self.handler is None:
            await self._inner(scope, receive, send)
        else:
            await (await self.handler(Request(scope, receive)))(scope, receive, send)

    async def start(self) -> None:
        self.server = HttpServer(self, "127.0.0.1", self.port, "admin")
        self.port = self.server.address[1]
        self.server.start()

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop()
            self.server = None

    def set(self, **values: object) -> None:
        wanted = wanted_for("main", Level.NAMESPACE, "orders", values)
        self.supervised.watch.change(wanted, Author("test"))
        self.supervised.watch.check()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    made = Gateway(tmp_path)
    await made.start()
    yield made
    await made.stop()
    made.supervised.watch.close()


@asynccontextmanager
async def engine_of(gateway: Gateway, **options: Any) -> AsyncIterator[PolicyEngine]:
    options.setdefault("timeout_s", 600)
    engine = await asyncio.to_thread(lambda: PolicyEngine.from_url(gateway.url, **options))
    try:
        yield engine
    finally:
        await asyncio.to_thread(engine.close)
    assert not [each for each in threading.enumerate() if each.name.startswith("sluicegate-")]


def rate(engine: PolicyEngine) -> float:
    with engine.lock:
        return engine.gate("orders.eu", False, monotonic_ns()).policies.number("max_publish_rate")


async def test_the_policies_in_force_apply_with_their_version_and_changes_follow(gateway: Gateway) -> None:
    async with engine_of(gateway) as engine:
        assert rate(engine) == 1000
        assert version_text(engine.policies.version) == version_text(gateway.supervised.watch.version)
        gateway.set(max_publish_rate="200/s")
        await until_so(lambda: rate(engine) == 200)
        assert engine.policies.version == gateway.supervised.watch.version
        assert engine.policies.layers == gateway.supervised.watch.policies("main").layers


def good(gateway: Gateway) -> dict[str, Any]:
    """What the gateway serves now."""
    policies = gateway.supervised.policies_in_force["main"]
    served = ServedPolicies.of(policies.config, policies.resolver.policy_set)
    return served.model_dump(mode="json")


def answering(status: int, content: bytes = b"") -> Handler:
    async def answer(request: Request) -> Response:
        return Response(content, status)

    return answer


def lying(lie: Callable[[dict[str, Any]], object], gateway: Gateway) -> Handler:
    """The right answer with a change."""

    async def answer(request: Request) -> Response:
        served = good(gateway)
        lie(served)
        return Response(json.dumps(served), headers={"etag": '"lie"'})

    return answer


async def hangs(request: Request) -> Response:
    await asyncio.Event().wait()
    raise AssertionError


def values_of(engine: PolicyEngine) -> dict[str, float]:
    """Metrics that have no labels."""
    return {
        each["name"]: each["values"][0][1] for each in engine.context.metrics.snapshot() if each["values"]
    }


def is_up(engine: PolicyEngine) -> bool:
    return values_of(engine).get("sluicegate_policies_url_up") == 1


def new_value(served: dict[str, Any], **values: object) -> None:
    served["settings"][0].update(values)


LIES: dict[str, Callable[[Gateway], Handler]] = {
    "error": lambda gateway: answering(500, b"oops"),
    "no policies": lambda gateway: answering(200, b"{}"),
    "no JSON": lambda gateway: answering(200, b"<html>"),
    "no text": lambda gateway: answering(200, b"\xff\xfe"),
    "deep": lambda gateway: answering(200, b"[" * 100_000),
    "huge": lambda gateway: answering(200, b" " * (17 << 20)),
    "redirect": lambda gateway: answering(302),
    "value": lambda gateway: lying(lambda it: new_value(it, value="very much"), gateway),
    "type": lambda gateway: lying(lambda it: new_value(it, value=[1]), gateway),
    "level": lambda gateway: lying(lambda it: new_value(it, level="galaxy"), gateway),
    "version": lambda gateway: lying(lambda it: it.update(version="newest"), gateway),
    "system": lambda gateway: lying(lambda it: it.update(system="nats"), gateway),
    "broker": lambda gateway: lying(lambda it: it.update(broker="other"), gateway),
    "entry": lambda gateway: lying(lambda it: it.update(entry={"namespace_separator": "long"}), gateway),
}


@pytest.mark.parametrize("lie", LIES)
async def test_the_last_good_policies_stay_while_the_gateway_answers_nonsense(
    gateway: Gateway, lie: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with engine_of(gateway) as engine:
        gateway.handler = LIES[lie](gateway)
        gateway.set(max_publish_rate="300/s")  # ends the request that waits
        await until_so(lambda: values_of(engine).get("sluicegate_policies_url_failures", 0) >= 3)
        assert not is_up(engine)
        assert rate(engine) in (1000, 300)  # the request that waited may have had the last good answer
        gateway.handler = None
        gateway.set(max_publish_rate="400/s")
        await until_so(lambda: rate(engine) == 400)
        await until_so(lambda: is_up(engine))
    assert sum("last good ones" in each.message for each in caplog.records) == 1


async def test_a_gateway_that_goes_away_is_followed_again_when_it_is_back(gateway: Gateway) -> None:
    async with engine_of(gateway) as engine:
        await gateway.stop()
        await until_so(lambda: not is_up(engine))
        assert rate(engine) == 1000
        gateway.set(max_publish_rate="300/s")
        await gateway.start()
        await until_so(lambda: rate(engine) == 300)
        await until_so(lambda: is_up(engine))


async def test_a_gateway_that_hangs_is_asked_again(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(policies_by_url, "_WAIT_S", 1)
    monkeypatch.setattr(policies_by_url, "_MARGIN_S", 1)
    async with engine_of(gateway) as engine:
        gateway.handler = hangs
        await until_so(lambda: values_of(engine).get("sluicegate_policies_url_failures", 0) >= 1)
        assert rate(engine) == 1000


@pytest.mark.parametrize(
    ("handler", "timeout_s", "why"),
    [
        (hangs, 0.3, "no answer within 0.3 s"),
        (answering(500), 3.0, "status 500"),
        (answering(200, b"{}"), 3.0, "broker: Field required"),
    ],
)
async def test_without_any_policies_the_start_fails_in_time_and_says_why(
    gateway: Gateway, handler: Handler, timeout_s: float, why: str
) -> None:
    gateway.handler = handler
    with pytest.raises(PolicyUrlError, match=f"no policies from {gateway.url}: .*{why}"):
        async with engine_of(gateway, timeout_s=timeout_s):
            pass


async def test_a_wrong_token_fails_at_once(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLUICEGATE_TOKEN", "wrong")
    with pytest.raises(PolicyUrlError, match="401 no such token: send"):
        async with engine_of(gateway):
            pass
    monkeypatch.setenv("SLUICEGATE_TOKEN", "token-viewer")
    async with engine_of(gateway) as engine:
        assert rate(engine) == 1000
    with pytest.raises(PolicyUrlError, match="404 no broker 'other': name one"):
        async with engine_of(gateway, broker="other"):
            pass


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://me:secret@host:1", "http://host?x=1"])
def test_a_url_of_something_else_is_refused_without_a_request(url: str) -> None:
    with pytest.raises(ValueError, match="URL") as raised:
        PolicyEngine.from_url(url)
    assert "secret" not in str(raised.value)


async def test_the_last_good_ones_of_an_earlier_start_apply_while_the_gateway_is_away(
    gateway: Gateway, tmp_path: Path
) -> None:
    folder = tmp_path / "state"
    async with engine_of(gateway, state_dir=folder) as engine:
        version = engine.policies.version
    await gateway.stop()
    async with engine_of(gateway, state_dir=folder) as engine:
        assert (rate(engine), engine.policies.version) == (1000, version)
        gateway.set(max_publish_rate="300/s")
        await gateway.start()
        await until_so(lambda: rate(engine) == 300)
    (folder / "policies-in-force.json").write_text("{")
    await gateway.stop()
    with pytest.raises(PolicyUrlError, match="no policies from"):
        async with engine_of(gateway, state_dir=folder):
            pass


async def test_fields_of_plugins_that_this_process_lacks_are_left_out_and_named(
    gateway: Gateway, caplog: pytest.LogCaptureFixture
) -> None:
    gateway.handler = lying(
        lambda it: it["settings"].append({**it["settings"][0], "field": "max_fun"}), gateway
    )
    async with engine_of(gateway) as engine:
        assert rate(engine) == 1000
        why = {"max_fun": "no plugin of this process declares it"}
        explained = engine.explain("orders.eu")
        assert explained["not_enforced"] == why
        assert explained["policies"]["max_publish_rate"]["location"] == "gateway.yaml:5"
    assert sum("max_fun: no plugin" in each.message for each in caplog.records) == 1


async def test_clients_of_a_process_share_one_engine_for_a_url(gateway: Gateway) -> None:
    def opened() -> list[OpenPolicies]:
        return [OpenPolicies(gateway.url, "kafka") for _ in range(3)]

    clients = await asyncio.to_thread(opened)
    assert len({id(each.engine) for each in clients}) == 1
    assert sum(each.name == "sluicegate-policies" for each in threading.enumerate()) == 1
    for each in clients:
        await asyncio.to_thread(each.close)
    assert not [each for each in threading.enumerate() if each.name.startswith("sluicegate-")]
