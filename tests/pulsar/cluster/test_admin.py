"""The gateway's own requests to the admin API: requests, and all kinds of responses."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.pulsar.cluster.scripted_api import Answer, api_at, json, moved, serving
from tests.pulsar.reference.running import running

from sluicegate_pulsar.cluster import admin
from sluicegate_pulsar.cluster.admin import AdminApi, AdminApiError

TOPIC = "persistent://public/default/orders"


@asynccontextmanager
async def answering(
    answer: Answer, token: str | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[tuple[AdminApi, list[str]]]:
    """An API whose server answers each request as it is told; and the requests."""
    async with serving(answer) as (port, requests):
        yield api_at(f"http://{host}:{port}", token)[0], requests


async def test_the_admin_api_returns_brokers_subscriptions_and_configuration() -> None:
    with running() as broker:
        api, brokers = api_at(f"{broker.admin_url}/")
        await api.list_brokers()
        assert brokers.target("127.0.0.1:6650") == ("127.0.0.1", 6650)
        assert await api.subscriptions(TOPIC) == set()
        assert "delayedDeliveryTickTimeMillis" in await api.configuration()


async def test_only_brokers_of_the_own_cluster_are_asked_for() -> None:
    async with serving(lambda _: json(b'["b8:8080", "b9:8080"]')) as (port, requests):
        api, brokers = api_at(f"http://127.0.0.1:{port}")
        await api.list_brokers()
    assert [brokers.target(f"{host}:6650") is not None for host in ("b8", "b9", "b7")] == [True, True, False]
    assert [request.split()[1] for request in requests] == ["/admin/v2/brokers"]


async def test_client_names_are_quoted_in_urls() -> None:
    async with answering(lambda _: json(b'["s"]')) as (api, requests):
        assert await api.subscriptions("persistent://a/b c/d HTTP/1.1\r\nX: y/ä?") == {"s"}

    [request] = requests
    head, *headers = request.splitlines()
    path = "/admin/v2/persistent/a/b%20c/d%20HTTP%2F1.1%0D%0AX%3A%20y%2F%C3%A4%3F/subscriptions"
    assert head == f"GET {path} HTTP/1.1"
    assert not [line for line in headers if line.startswith("X:")]


async def test_a_chunked_response_is_read() -> None:
    chunked = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n["a\r\n6\r\n","b"]\r\n0\r\n\r\n'
    async with answering(lambda _: chunked) as (api, _):
        assert await api.subscriptions(TOPIC) == {"a", "b"}


async def test_redirects_to_the_owner_keep_the_token() -> None:
    async with serving(lambda _: json(b'["s"]')) as (owner, asked):

        def elsewhere(request: str) -> bytes:
            return moved(f"http://127.0.0.1:{owner}{request.split()[1]}?authoritative=true")

        async with answering(elsewhere, "secret") as (api, _):
            assert await api.subscriptions(TOPIC) == {"s"}

    [request] = asked
    assert request.startswith(
        "GET /admin/v2/persistent/public/default/orders/subscriptions?authoritative=true"
    )
    assert "Authorization: Bearer secret\r\n" in request


async def test_another_cluster_gets_no_request(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(lambda _: json(b'["s"]')) as (partner, asked):
        there = f"http://127.0.0.1:{partner}"

        def elsewhere(request: str) -> bytes:
            return moved(there + request.split()[1])

        async with answering(elsewhere, "secret", "localhost") as (api, _):
            for _ in range(3):
                with pytest.raises(
                    AdminApiError, match=f"redirects to {there}, which is not followed"
                ) as error:
                    await api.subscriptions(TOPIC)
                assert error.value.status == 307
    assert asked == []
    [line] = caplog.messages
    assert there in line
    assert "name it in `known_brokers`" in line


@pytest.mark.parametrize("known_brokers", [[], ["127.0.0.1:6650"], ["127.0.*"]])
async def test_brokers_are_listed_when_a_redirect_leads_to_a_new_one(
    known_brokers: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """The owner of a topic may have come up since they were last listed."""
    async with serving(lambda _: json(b'["s"]')) as (owner, asked):

        def answer(request: str) -> bytes:
            path = request.split()[1]
            if path == "/admin/v2/brokers":
                return json(b'["127.0.0.1:8080"]')
            return moved(f"http://127.0.0.1:{owner}{path}")

        async with serving(answer) as (port, requests):
            api, _ = api_at(f"http://localhost:{port}", "secret", known_brokers=known_brokers)
            answers = await asyncio.gather(*(api.subscriptions(f"{TOPIC}{number}") for number in range(8)))
    assert answers == [{"s"}] * 8
    assert all("Authorization: Bearer secret\r\n" in request for request in asked)
    listings = [request for request in requests if request.startswith("GET /admin/v2/brokers ")]
    assert len(listings) == (0 if known_brokers else 1)
    assert caplog.messages == []


@pytest.mark.parametrize(
    "listed", [json(b"", "403 Forbidden"), json(b"null"), json(b"[7]"), json(b'["b8:1"]')]
)
async def test_a_redirect_is_not_followed_to_a_broker_that_is_not_listed(listed: bytes) -> None:
    def answer(request: str) -> bytes:
        return listed if request.split()[1] == "/admin/v2/brokers" else moved("http://b7:8080/")

    async with answering(answer) as (api, _):
        with pytest.raises(AdminApiError, match="redirects to http://b7:8080"):
            await api.subscriptions(TOPIC)


async def test_redirect_loops_end() -> None:
    loop = moved("/there")
    async with answering(lambda _: loop) as (api, requests):
        with pytest.raises(AdminApiError, match="answers 307"):
            await api.subscriptions(TOPIC)
    assert len(requests) == 4


async def test_a_topic_that_does_not_exist_has_no_subscriptions() -> None:
    async with answering(lambda _: json(b'{"reason": "no"}', "404 Not Found")) as (api, _):
        assert await api.subscriptions(TOPIC) == set()
        with pytest.raises(AdminApiError, match="answers 404 Not Found"):
            await api.configuration()


@pytest.mark.parametrize(
    "received",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n[",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        json(b'{"reason": "no superuser"}', "403 Forbidden"),
        moved("ftp://"),
    ],
)
async def test_a_malformed_response_is_an_error(received: bytes) -> None:
    async with answering(lambda _: received) as (api, _):
        with pytest.raises(AdminApiError, match=r"http://127\.0\.0\.1|ftp:"):
            await api.subscriptions(TOPIC)


async def test_an_endless_response_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_LARGEST_ANSWER", 1_000)
    async with answering(lambda _: json(b"[" + b" " * 2_000 + b"]")) as (api, _):
        with pytest.raises(AdminApiError, match="more than 1000 bytes"):
            await api.subscriptions(TOPIC)


async def test_a_silent_or_absent_server_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admin, "_TIMEOUT_S", 0.05)
    waiting: list[asyncio.StreamWriter] = []

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting.append(writer)

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as server:
        api, _ = api_at(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(AdminApiError, match=r"does not answer within 0\.05 s"):
            await api.configuration()
        for writer in waiting:
            writer.close()
    monkeypatch.undo()
    with pytest.raises(AdminApiError, match=r"refused|Connect"):
        await api.configuration()
