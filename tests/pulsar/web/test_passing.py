"""What the gateway has no part in passes unchanged."""

import asyncio
import gzip
import logging
import socket
from collections.abc import AsyncIterator

import httpx
import pytest
from tests.pulsar.web.fake_admin import FakeAdmin
from tests.pulsar.web.lab import TOPIC, FakeServices, Lab, lab_of, serving
from tests.waiting import LONG_S

from sluicegate_pulsar.web import passing

CLUSTERS = "/admin/v2/clusters"


async def raw(lab: Lab, request: bytes) -> bytes:
    """What a client gets that sends these bytes and waits for the end."""
    host, port = lab.client.base_url.host, lab.client.base_url.port
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(request)
    async with asyncio.timeout(LONG_S):
        answer = await reader.read()
    writer.close()
    return answer


async def test_method_path_query_headers_and_body_arrive_as_they_were_sent(lab: Lab) -> None:
    target = "/admin/v2/x%2Fy/%7Bz%7D?a=1&a=2&b=%20+c&empty="
    answer = await raw(
        lab,
        f"PUT {target} HTTP/1.1\r\nHost: gate:1\r\nX-One: 1\r\nX-One: 2\r\nAuthorization: Bearer t\r\n"
        "Content-Type: text/x\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello".encode(),
    )
    assert answer.startswith(b"HTTP/1.1 200 ")
    [seen] = lab.admin.seen
    assert (seen.method, seen.target, seen.body) == ("PUT", target, b"hello")
    assert dict(seen.headers) == {
        "x-one": "2",
        "authorization": "Bearer t",
        "content-type": "text/x",
        "content-length": "5",
        "host": lab.admin_url.removeprefix("http://"),
    }
    assert [value for name, value in seen.headers if name == "x-one"] == ["1", "2"]


async def test_two_lengths_are_refused_and_the_connection_is_closed(lab: Lab) -> None:
    both = "Content-Length: 5\r\nTransfer-Encoding: chunked"
    body = f"0\r\n\r\nGET {CLUSTERS} HTTP/1.1\r\nHost: gate\r\n\r\n"
    answer = await raw(lab, f"POST {CLUSTERS} HTTP/1.1\r\nHost: gate\r\n{both}\r\n\r\n{body}".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"Content-Length and Transfer-Encoding exclude each other" in answer
    assert lab.admin.seen == []


@pytest.mark.parametrize(
    "name",
    ["X-Original-Principal", "X-Original-Auth-Data", "X-Forwarded-For", "Forwarded", "X-Real-IP"],
)
async def test_clients_cannot_set_the_headers_of_a_proxy(lab: Lab, name: str) -> None:
    await lab.get(CLUSTERS, headers={name: "admin", "x-kept": "1"})
    await lab.set(TOPIC, {"fixedDeliveryDelayInMillis": 9}, headers={name.lower(): "admin"})
    assert len(lab.admin.seen) > 1
    assert all(each.header(name.lower()) is None for each in lab.admin.seen)
    assert lab.admin.seen[0].header("x-kept") == "1"


async def test_host_headers_of_clients_are_not_forwarded(lab: Lab) -> None:
    lookup = "/lookup/v2/topic/persistent/public/default/orders"
    lab.admin.fixed[lookup] = (307, {"location": f"{lab.admin_url}{lookup}?authoritative=true"}, b"")
    lab.admin.fixed["/admin"] = (302, {"location": "/admin/v2/clusters"}, b"")
    for path in (lookup, "/admin"):
        answer = await lab.get(path, headers={"host": "elsewhere:1"})
        assert answer.headers["location"].startswith(f"{lab.url}/")


async def test_an_absolute_url_does_not_bypass_the_refused_paths(lab: Lab) -> None:
    target = f"{lab.admin_url}/topics/persistent/public/default/orders"
    answer = await raw(lab, f"GET {target} HTTP/1.1\r\nHost: gate\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert lab.admin.seen == []


async def test_responses_are_returned_unchanged(lab: Lab) -> None:
    packed = gzip.compress(b"x" * 1000)
    headers = {"content-encoding": "gzip", "content-type": "text/plain", "etag": '"7"', "set-cookie": "a=1"}
    lab.admin.fixed["/metrics"] = (202, headers, packed)

    async with lab.client.stream("GET", "/metrics", headers={"accept-encoding": "gzip"}) as answer:
        body = b"".join([part async for part in answer.aiter_raw()])

    assert (answer.status_code, body) == (202, packed)
    assert {name: answer.headers[name] for name in headers} == headers
    assert {"server", "date"} & set(answer.headers) == set()


async def test_one_callers_cookie_is_not_sent_for_another(lab: Lab) -> None:
    lab.admin.fixed["/login"] = (200, {"set-cookie": "session=1; Path=/"}, b"")
    await lab.get("/login")
    async with httpx.AsyncClient(
        base_url=lab.client.base_url, trust_env=False, verify=False, timeout=LONG_S
    ) as other:
        await other.get(CLUSTERS)
    assert lab.admin.seen[-1].header("cookie") is None


@pytest.mark.parametrize("method", ["HEAD", "DELETE", "POST"])
async def test_requests_without_a_body_stay_without_one(lab: Lab, method: str) -> None:
    answer = await lab.client.request(method, CLUSTERS)
    assert answer.status_code == 200
    assert (lab.admin.seen[-1].method, lab.admin.seen[-1].body) == (method, b"")
    assert lab.admin.seen[-1].header("transfer-encoding") is None


async def test_bodies_of_unknown_length_are_streamed(lab: Lab) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(64):
            yield b"y" * 65_536

    answer = await lab.client.put("/admin/v3/packages/x", content=parts())
    assert answer.json()["bytes"] == 64 * 65_536
    assert lab.admin.seen[-1].header("transfer-encoding") == "chunked"


async def test_responses_are_streamed(lab: Lab) -> None:
    lab.admin.block = asyncio.Event()
    async with lab.client.stream("GET", "/slow") as answer:
        parts = answer.aiter_raw()
        assert await anext(parts) == b"first"


async def test_a_truncated_response_is_not_completed(lab: Lab) -> None:
    lab.admin.block = asyncio.Event()
    lab.admin.block.set()
    with pytest.raises(httpx.RemoteProtocolError):
        await lab.get("/slow")
    assert (await lab.get(CLUSTERS)).status_code == 200


async def test_hop_by_hop_headers_are_not_forwarded(lab: Lab) -> None:
    await raw(
        lab,
        b"GET /admin/v2/clusters HTTP/1.1\r\nHost: g\r\nConnection: close, X-Private\r\nX-Private: 1\r\n"
        b"TE: trailers\r\nExpect: 100-continue\r\nUpgrade: h2c\r\nX-Public: 1\r\n\r\n",
    )
    names = {name for name, _ in lab.admin.seen[-1].headers}
    assert "x-public" in names
    assert not names & {"connection", "x-private", "te", "expect", "upgrade"}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/ws/v2/producer/persistent/public/default/orders", 403),
        ("/topics/persistent/public/default/orders", 403),
        ("//topics/persistent/public/default/orders", 403),
        ("/%74opics/persistent/public/default/orders", 403),
        ("/admin/../topics/persistent/public/default/orders", 400),
        ("/admin/%2e%2e/topics/persistent/public/default/orders", 400),
        ("/topics;a=b/persistent/public/default/orders", 400),
        ("/admin\\..\\topics", 400),
    ],
)
async def test_no_messages_bypass_the_policies(lab: Lab, path: str, status: int) -> None:
    answer = await raw(lab, f"POST {path} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(f"HTTP/1.1 {status} ".encode())
    assert b'"reason"' in answer
    assert lab.admin.seen == []


@pytest.mark.parametrize("method", ["post", "Post", "get"])
@pytest.mark.parametrize("path", [TOPIC, "/lookup/v2/topic/persistent/public/default/orders"])
async def test_methods_in_other_cases_are_refused(lab: Lab, method: str, path: str) -> None:
    """The client for the broker writes them in upper case, so the broker would take them for others."""
    answer = await raw(lab, f"{method} {path} HTTP/1.1\r\nHost: g\r\nConnection: close\r\n\r\n".encode())
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b'{"reason":"expected a method in upper case"}' in answer
    assert lab.admin.seen == []


async def test_a_broker_that_is_down_is_named_only_in_the_log(
    admin: FakeAdmin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    async with lab_of(admin, FakeServices(), admin={"url": url}) as lab:
        for path in (CLUSTERS, TOPIC, "/lookup/v2/topic/persistent/public/default/orders"):
            answer = await lab.get(path)
            assert answer.status_code == 502
            assert answer.json()["reason"] == "the broker's admin API cannot be reached"
            assert f"GET {path}: 502 the broker's admin API cannot be reached ({url}: " in caplog.text
        assert (await lab.set(TOPIC, {"fixedDeliveryDelayInMillis": 1})).status_code == 502
        assert lab.services.store.version() == 0


async def test_a_broker_that_never_answers_times_out(admin: FakeAdmin) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        async with lab_of(admin, FakeServices(), timeout_s=0.2, admin={"url": url}) as lab:
            answer = await lab.get(CLUSTERS)
            said = {"reason": "the broker's admin API did not answer in time"}
            assert (answer.status_code, answer.json()) == (504, said)


async def test_a_missing_body_times_out(admin: FakeAdmin) -> None:
    async with lab_of(admin, FakeServices(), timeout_s=0.2) as lab:
        answer = await raw(
            lab,
            f"POST {TOPIC} HTTP/1.1\r\nHost: g\r\nConnection: close\r\nContent-Length: 9\r\n\r\n{{".encode(),
        )
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert admin.seen == []


async def test_a_client_that_hangs_up_ends_its_request(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    lab.admin.block = asyncio.Event()
    host, port = lab.client.base_url.host, lab.client.base_url.port
    reader, writer = await asyncio.open_connection(host, port)
    writer.write(b"GET /slow HTTP/1.1\r\nHost: g\r\n\r\n")
    await reader.readuntil(b"first")
    writer.close()
    _, half = await asyncio.open_connection(host, port)
    half.write(b"PUT /admin/v2/x HTTP/1.1\r\nHost: g\r\nContent-Length: 9\r\n\r\nhalf")
    await half.drain()
    half.close()
    assert (await lab.get(CLUSTERS)).status_code == 200
    lab.admin.block.set()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_redirects_to_known_brokers_are_rewritten_to_the_gateway(
    admin: FakeAdmin, services: FakeServices
) -> None:
    second = FakeAdmin()
    async with serving(second) as other:
        port = other.rpartition(":")[2]
        async with lab_of(admin, services, known_brokers=[f"127.0.0.1:{port}"]) as lab:
            place = "/admin/v2/persistent/public/default/orders/stats"
            admin.fixed[place] = (307, {"location": f"{other}{place}?authoritative=true"}, b"")
            moved = await lab.get(place)
            expected = f"{lab.url}{place}?authoritative=true&sluicegate_broker={other}"
            assert (moved.status_code, moved.headers["location"]) == (307, expected)

            followed = await lab.get(place, follow_redirects=True)
            assert followed.status_code == 200
            assert second.seen[-1].target == f"{place}?authoritative=true"

            # The gateway's own requests follow as well, with the caller's credentials.
            admin.fixed[TOPIC] = (307, {"location": f"{other}{TOPIC}?authoritative=true"}, b"")
            headers = {"authorization": "Bearer a"}
            changed = await lab.set(TOPIC, {"fixedDeliveryDelayInMillis": 9}, headers=headers)
            assert changed.status_code == 204
            assert second.policies[TOPIC]["active"] is True
            assert second.seen[-1].header("authorization") == "Bearer a"
            assert services.stored()["fixed_delivery_delay"] == 9


@pytest.mark.parametrize(
    ("location", "logged"),
    [
        ("http://elsewhere:8080/x", "(http://elsewhere:8080 is no known broker of this cluster"),
        ("http://127.0.0.1:1/x", "(http://127.0.0.1:1 is no known broker of this cluster"),
        ("//elsewhere/x", "(http://elsewhere:80 is no known broker of this cluster"),
        ("ftp://127.0.0.1/x", "('ftp://127.0.0.1/x' is no web address)"),
    ],
)
async def test_redirects_elsewhere_are_neither_followed_nor_returned(
    lab: Lab, location: str, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for path in (CLUSTERS, TOPIC, "/lookup/v2/topic/persistent/public/default/orders"):
        lab.admin.fixed[path] = (307, {"location": location}, b"")
        answer = await lab.get(path)
        assert answer.status_code == 502
        assert answer.json()["reason"] == "the broker redirects to one that is not known"
        assert logged in caplog.text
        caplog.clear()
        assert "location" not in answer.headers


async def test_redirects_within_the_broker_are_kept(lab: Lab) -> None:
    lab.admin.fixed["/admin"] = (302, {"location": "/admin/v2/clusters"}, b"")
    answer = await lab.get("/admin")
    assert answer.headers["location"] == f"{lab.url}/admin/v2/clusters"
    assert (await lab.get("/admin", follow_redirects=True)).status_code == 200


async def test_endless_redirects_are_refused(lab: Lab) -> None:
    lab.admin.fixed[TOPIC] = (307, {"location": f"{lab.admin_url}{TOPIC}"}, b"")
    answer = await lab.get(TOPIC)
    assert answer.status_code == 502
    assert "redirects more than" in answer.json()["reason"]


@pytest.mark.parametrize("mark", ["http://elsewhere:8080", "nonsense", "http://user@127.0.0.1:1", ""])
async def test_clients_cannot_choose_an_arbitrary_broker(lab: Lab, mark: str) -> None:
    answer = await lab.get(CLUSTERS, params={"sluicegate_broker": mark})
    assert answer.status_code == 400
    assert lab.admin.seen == []


async def test_a_client_that_does_not_read_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fake, size, given_up = FakeAdmin(), 16 * 1024 * 1024, asyncio.Event()
    monkeypatch.setattr(passing.log, "warning", lambda *_: given_up.set())
    fake.fixed["/metrics"] = (200, {}, b"x" * size)
    async with lab_of(fake, FakeServices(), timeout_s=0.2) as lab:
        host, port = lab.client.base_url.host, lab.client.base_url.port
        reader, writer = await asyncio.open_connection(host, port, limit=1024)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: g\r\n\r\n")
        async with asyncio.timeout(LONG_S):
            await given_up.wait()
            received = 0
            while part := await reader.read(65_536):
                received += len(part)
        assert received < size
        writer.close()
