"""Enough of an admin API to be asked for policies and addresses; it keeps what it was asked."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote

from sluicegate.broker import Receive, Scope, Send

DELAYED = "/delayedDelivery"


@dataclass
class Seen:
    """One request."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        return dict(self.headers).get(name)


@dataclass
class FakeAdmin:
    """An ASGI application that answers as Pulsar does."""

    policies: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Delayed-delivery policies by path."""
    static_max: int = 0
    """The brokers' own longest delay."""
    stubborn: bool = False
    """Whether the static one holds whatever a topic says, as a broker of another version may have it."""
    topics: list[str] = field(default_factory=list)
    users: dict[str, set[str]] | None = None
    """Methods by the value of `Authorization`; everybody may do everything if None."""
    fixed: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    """Answers by path."""
    failing: set[tuple[str, str]] = field(default_factory=set)
    """Methods and paths that are answered 500."""
    seen: list[Seen] = field(default_factory=list)
    block: asyncio.Event | None = None
    """Answers of `/slow` wait for it after their first part."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        raw, query = scope["raw_path"].decode(), scope["query_string"].decode()
        headers = [(name.decode(), value.decode()) for name, value in scope["headers"]]
        seen = Seen(scope["method"], f"{raw}?{query}" if query else raw, headers, body)
        self.seen.append(seen)
        if raw == "/slow":
            await self._slow(send)
            return
        status, extra, content = self._answer(seen, unquote(raw), parse_qs(query))
        said = [(name.encode(), value.encode()) for name, value in extra.items()]
        said.append((b"content-length", str(len(content)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": said})
        await send({"type": "http.response.body", "body": b"" if seen.method == "HEAD" else content})

    async def _slow(self, send: Send) -> None:
        assert self.block is not None
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await self.block.wait()

    def _answer(
        self, seen: Seen, path: str, query: dict[str, list[str]]
    ) -> tuple[int, dict[str, str], bytes]:
        if self.users is not None:
            allowed = self.users.get(seen.header("authorization") or "")
            if allowed is None:
                return _failed(401, "Authentication required")
            if seen.method not in allowed:
                return _failed(403, "not authorized")
        if (seen.method, path) in self.failing:
            return _failed(500, "out of order")
        if path in self.fixed:
            return self.fixed[path]
        if path.endswith(DELAYED):
            return self._delayed(seen, path, query)
        if path.startswith("/admin/v2/persistent/") and seen.method == "GET":
            names = [] if path.endswith("/partitioned") else self.topics
            return _json(names)
        return _json({"method": seen.method, "target": seen.target, "bytes": len(seen.body)})

    def _delayed(
        self, seen: Seen, path: str, query: dict[str, list[str]]
    ) -> tuple[int, dict[str, str], bytes]:
        if seen.method == "POST":
            known = ("active", "tickTime", "maxDeliveryDelayInMillis")
            given = json.loads(seen.body) or {}
            self.policies[path] = {"active": False, "tickTime": 0, "maxDeliveryDelayInMillis": 0} | {
                name: given[name] for name in known if name in given
            }
            return 204, {}, b""
        if seen.method == "DELETE":
            self.policies.pop(path, None)
            return 204, {}, b""
        found = self.policies.get(path)
        if query.get("applied") == ["true"]:
            static = {"active": True, "tickTime": 1000, "maxDeliveryDelayInMillis": self.static_max}
            found = static if found is None or self.stubborn else found
        return _json(found) if found is not None else (204, {}, b"")


def _json(value: object) -> tuple[int, dict[str, str], bytes]:
    return 200, {"content-type": "application/json", "x-from": "broker"}, json.dumps(value).encode()


def _failed(status: int, reason: str) -> tuple[int, dict[str, str], bytes]:
    return status, {"content-type": "application/json"}, json.dumps({"reason": reason}).encode()
