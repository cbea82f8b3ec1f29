"""HTTP/2 reads full of small frames, each as a case of the bounded-work benchmark."""

import struct
from collections.abc import Callable, Mapping
from typing import TypeAlias

from benchmarks.harness.sessions import Services, Timed
from sluicegate.model import Method, MethodMap, PolicyValue, Role
from sluicegate_grpc.calls import Calls
from sluicegate_grpc.splice import GrpcSession, Shared

Case: TypeAlias = Callable[[int], list[float]]
_READ = 256_000
"""Bytes that the event loop reads at once."""
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _PING, _WINDOW_UPDATE, _CONTINUATION = 0, 1, 4, 6, 8, 9
_ACK = _END_STREAM = 1
_END_HEADERS = 4
_METHODS = MethodMap(
    "made-up", {"/t.B/Publish": Method(Role.PUBLISH, payload=(1,), topic=(2,), producer=(3,))}, "x-broker"
)
_POLICIES: Mapping[str, PolicyValue] = {"max_publish_rate": 10**9}


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def _literal(name: str, value: str) -> bytes:
    return b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


def _request(path: str) -> bytes:
    """A header block without references to a table, but for the pseudo-headers of the static one."""
    block = b"\x83\x86" + _literal(":path", path) + _literal("content-type", "application/grpc")
    return block + _literal("te", "trailers")


def _session() -> Timed:
    """A connection on which both sides have sent their SETTINGS and the window of the connection is open."""
    services = Services(_POLICIES)
    calls = Calls(_METHODS, services.gates.get, 30 * 10**9)
    session = GrpcSession(Shared(services, calls, _METHODS, 2 * 10**9), "10.0.0.1:5000")
    timed = Timed(session)
    timed.client(_PREFACE + _frame(_SETTINGS, 0, 0))
    timed.broker(_frame(_SETTINGS, 0, 0) + _frame(_SETTINGS, _ACK, 0))
    timed.broker(_frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30)))
    timed.client(_frame(_SETTINGS, _ACK, 0) + _frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", 2**30)))
    timed.forget()
    return timed


def _client(frame: bytes, most: int, before: bytes = b"") -> Case:
    """So many frames of a client in one read, as far as they fit into it and a second lets them."""

    def case(scale: int) -> list[float]:
        timed = _session()
        if before:
            timed.client(before)
            timed.forget()
        timed.client(frame * (min(most, _READ // len(frame)) // scale))
        return timed.slices_ms

    return case


def _broker(frame: bytes) -> Case:
    def case(scale: int) -> list[float]:
        timed = _session()
        timed.client(_frame(_HEADERS, _END_HEADERS, 1, _request("/t.B/Other")))
        timed.forget()
        timed.broker(frame * (_READ // len(frame) // scale))
        return timed.slices_ms

    return case


def _calls(scale: int) -> list[float]:
    """Publishes of one byte, each a call of its own."""
    block = _request("/t.B/Publish")
    message = b"\x0a\1x\x12\1t\x18\1"
    body = struct.pack(">BI", 0, len(message)) + message
    timed = _session()
    read = b"".join(
        _frame(_HEADERS, _END_HEADERS, stream, block) + _frame(_DATA, _END_STREAM, stream, body)
        for stream in range(1, 2 * 2_000 // scale, 2)
    )
    timed.client(read[:_READ])
    return timed.slices_ms


_OPEN = _frame(_HEADERS, _END_HEADERS, 1, _request("/t.B/Other"))
_PARTS = _frame(_HEADERS, _END_STREAM, 3) + _frame(_CONTINUATION, 0, 3) * 30

CASES: Mapping[str, Case] = {
    "http2_pings": _client(_frame(_PING, 0, 0, bytes(8)), 1_000),
    "http2_settings": _client(_frame(_SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535) * 300), 100),
    "http2_window_updates": _client(_frame(_WINDOW_UPDATE, 0, 0, struct.pack(">I", 1)), 10_000),
    "http2_empty_data": _client(_frame(_DATA, 0, 1), 10_000, _OPEN),
    "http2_tiny_data": _client(_frame(_DATA, 0, 1, b"x"), 10**6, _OPEN),
    "http2_unknown": _client(_frame(99, 0, 0), 10_000),
    "http2_continuations": _client(_PARTS, 1),
    "http2_calls": _calls,
    "http2_tiny_answers": _broker(_frame(_DATA, 0, 1, b"x")),
    "http2_tiny_answer_windows": _broker(_frame(_WINDOW_UPDATE, 0, 1, struct.pack(">I", 1))),
}
"""By name in the results."""
