"""The gateway's own requests to the admin API: requests, and all kinds of responses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from tests.pulsar.reference.running import running

from sluicegate_pulsar.cluster import admin
from sluicegate_pulsar.cluster.admin import AdminApi, AdminApiError
from sluicegate_pulsar.config import Admin

TOPIC = "persistent://public/default/orders"
Answer = Callable[[str], bytes]


def json(content: bytes, status: str = "200 OK", headers: str = "") -> bytes:
    return f"HTTP/1.1 {status}\r\n{headers}Content-Length: {len(content)}\r\n\r\n".encode() + content


@asynccontextmanager
async def answering(answer: Answer, token: str | None = None) -> AsyncIterator[tuple[AdminApi, list[str]]]:
    """An API whose server answers each request, which are kept, as it is told; and the requests."""
    requests: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        requests.append(request)
        writer.write(answer(request))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        yield AdminApi(Admin(url=f"http://127.0.0.1:{port}", token=token), None), requests


async def test_the_admin_api_returns_brokers_subscriptions_and_configuration() -> None:
    with running() as broker:
        api = AdminApi(Admin(url=f"{broker.admin_url}/"), None)
        assert await api.broker_hosts() == {"127.0.0.1"}
        assert await api.subscriptions(TOPIC) == set()
        assert "delayedDeliveryTickTimeMillis" in await api.configuration()


async def test_an_unreachable_cluster_does_not_hide_other_clusters() -> None:
    def answer(request: str) -> bytes:
        path = request.split()[1]
        if path == "/admin/v2/clusters":
            return json(b'["east", "west"]')
        if path.endswith("/west"):
            return json(b'["b1:8080", "b2:8080"]')
        return json(b"", "307 Temporary Redirect", "Location: http://127.0.0.1:1/elsewhere\r\n")

    async with answering(answer) as (api, _):
        assert await api.broker_hosts() == {"b1", "b2"}
    async with answering(lambda request: answer(request).replace(b"west", b"east")) as (api, _):
        with pytest.raises(AdminApiError, match="elsewhere"):
            await api.broker_hosts()


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
    async with answering(lambda _: json(b'["s"]')) as (owner, asked):

        def elsewhere(request: str) -> bytes:
            place = request.split()[1]
            return json(
                b"", "307 Temporary Redirect", f"Location: {owner._url}{place}?authoritative=true\r\n"
            )

        async with answering(elsewhere, "secret") as (api, _):
            assert await api.subscriptions(TOPIC) == {"s"}

    [request] = asked
    assert request.startswith(
        "GET /admin/v2/persistent/public/default/orders/subscriptions?authoritative=true"
    )
    assert "Authorization: Bearer secret\r\n" in request


async def test_redirect_loops_end() -> None:
    loop = json(b"", "307 Temporary Redirect", "Location: /there\r\n")
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
        json(b"", "307 Temporary Redirect", "Location: ftp://\r\n"),
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
        api = AdminApi(Admin(url=f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"), None)
        with pytest.raises(AdminApiError, match=r"does not answer within 0\.05 s"):
            await api.configuration()
        for writer in waiting:
            writer.close()
    monkeypatch.undo()
    with pytest.raises(AdminApiError, match=r"refused|Connect"):
        await api.configuration()
