"""The admin API answers processes of its own host that ask by a loopback name or address, and nobody else."""

import hashlib
import json

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from sluicegate.admin.access import Access, scrape_guard
from sluicegate.config.admin_section import AdminCaller, Scope


async def asked(host: str | None, client: str = "127.0.0.1") -> httpx.Response:
    transport = httpx.ASGITransport(
        Access(PlainTextResponse("hello"), (), "00" * 16), client=(client, 50_000)
    )
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as asking:
        request = asking.build_request("GET", "/")
        del request.headers["host"]
        if host is not None:
            request.headers["host"] = host
        return await asking.send(request)


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST.", "localhost:9095", "127.0.0.1:9095", "127.3.2.1", "[::1]:9095"]
)
async def test_local_names_and_addresses_are_answered(host: str) -> None:
    assert (await asked(host)).text == "hello"


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "127.0.0.1@evil.example"),
        *("10.0.0.7:9095", "[fd00::7]", "0.0.0.0", "2130706433", "127.1", "[localhost]", "", None),
    ],
)
async def test_other_names_are_refused_with_a_remedy(host: str | None) -> None:
    """A web page may point a name of its own here."""
    response = await asked(host)
    assert response.status_code == 421
    assert response.headers["content-type"] == "application/problem+json"
    problem = json.loads(response.text)
    assert (problem["type"], problem["status"]) == ("/problems/wrong-host", 421)
    assert "ask on the gateway's own host" in problem["remedy"]


@pytest.mark.parametrize("client", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
async def test_this_host_is_answered(client: str) -> None:
    assert (await asked("localhost", client)).status_code == 200


@pytest.mark.parametrize("client", ["10.0.0.7", "fd00::7", "::ffff:10.0.0.7", "0.0.0.0", ""])
async def test_other_hosts_are_refused_whatever_they_say(client: str) -> None:
    response = await asked("localhost", client)
    assert (response.status_code, response.json()["type"]) == (403, "/problems/not-local")


@pytest.mark.parametrize(
    ("scopes", "token", "seen"),
    [
        ((), None, True),
        (("read", "write"), None, True),
        (("metrics",), None, False),
        (("metrics",), "wrong", False),
        (("metrics",), "token", True),
        (("read", "metrics"), "token", True),
    ],
)
def test_metrics_need_a_token_once_a_caller_is_for_them(
    scopes: tuple[Scope, ...], token: str | None, seen: bool
) -> None:
    digest = hashlib.sha256(b"token").hexdigest()
    callers = [
        AdminCaller(name=f"c{number}", sha256=digest, scope=scope) for number, scope in enumerate(scopes)
    ]
    headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
    refused = scrape_guard(callers)(Request({"type": "http", "headers": headers}))
    assert (refused is None) == seen
    assert refused is None or refused.status_code == 401
