"""Servers answer by address and by the names that their users list, and by no other name."""

import httpx
import pytest
from starlette.responses import PlainTextResponse

from sluicegate.net.http_hosts import HostCheck


async def asked(host: str | None) -> tuple[int, str]:
    app = HostCheck(PlainTextResponse("hello"), ("Gate.Example", "::1"), "admin.allowed_hosts")
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
        request = client.build_request("GET", "/")
        del request.headers["host"]
        if host is not None:
            request.headers["host"] = host
        response = await client.send(request)
    return response.status_code, response.text


@pytest.mark.parametrize(
    "host",
    [
        *("localhost", "localhost:9095", "LOCALHOST", "localhost."),
        *("127.0.0.1", "127.0.0.1:9095", "10.244.1.7:9095", "[::1]", "[fd00::7]:9095"),  # a pod's address
        *("gate.example", "gate.example:9095", "GATE.example"),
        None,
    ],
)
async def test_addresses_and_listed_names_are_answered(host: str | None) -> None:
    assert await asked(host) == (200, "hello")


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil.example:9095", "127.0.0.1.evil.example", "localhost.evil.example"),
        *("gate.example.evil.example", "xgate.example", "[evil.example]:9095", "127.0.0.1@evil.example"),
        *("2130706433", "0x7f000001", "127.1"),  # names that some resolvers take for addresses
    ],
)
async def test_another_name_gets_421_with_a_remedy(host: str) -> None:
    status, text = await asked(host)
    assert status == 421
    remedy = "ask by IP address, or add the name to admin.allowed_hosts"
    assert text == f"not served by the name {host}: {remedy}\n"
