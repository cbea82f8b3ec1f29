"""HTTP/2 reads full of small frames, each as a case of the bounded-work benchmark."""

import struct
from collections.abc import Callable, Mapping
from typing import TypeAlias

from benchmarks.harness import http2_bytes as http2
from benchmarks.harness.sessions import Services, Timed
from sluicegate.model import Method, MethodMap, PolicyValue, Role
from sluicegate_grpc.proxy.splice import GrpcSession, Shared
from sluicegate_grpc.proxy.splice.requests import RequestRules
from sluicegate_grpc.semantics.calls import Attachments, Calls

Case: TypeAlias = Callable[[int], list[float]]
_READ = 256_000
"""Bytes that the event loop reads at once."""
_METHODS = MethodMap(
    "made-up", {"/t.B/Publish": Method(Role.PUBLISH, payload=(1,), topic=(2,), producer=(3,))}, "x-broker"
)
_POLICIES: Mapping[str, PolicyValue] = {"max_publish_rate": 10**9}


def _session() -> Timed:
    """A connection on which both sides have sent their SETTINGS and the window of the connection is open."""
    services = Services(_POLICIES)
    calls = Calls(_METHODS, Attachments(services.gates.get, 30 * 10**9))
    session = GrpcSession(Shared(services, calls, RequestRules(_METHODS), 2 * 10**9), "10.0.0.1:5000")
    timed = Timed(session)
    timed.client(http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0))
    timed.broker(http2.frame(http2.SETTINGS, 0, 0) + http2.frame(http2.SETTINGS, http2.ACK, 0))
    timed.broker(http2.window(2**30))
    timed.client(http2.frame(http2.SETTINGS, http2.ACK, 0) + http2.window(2**30))
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
        timed.client(http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.request("/t.B/Other")))
        timed.forget()
        timed.broker(frame * (_READ // len(frame) // scale))
        return timed.slices_ms

    return case


def _calls(scale: int) -> list[float]:
    """Publishes of one byte, each a call of its own."""
    block = http2.request("/t.B/Publish")
    body = http2.message(b"\x0a\1x\x12\1t\x18\1")
    timed = _session()
    read = b"".join(
        http2.frame(http2.HEADERS, http2.END_HEADERS, stream, block)
        + http2.frame(http2.DATA, http2.END_STREAM, stream, body)
        for stream in range(1, 2 * 2_000 // scale, 2)
    )
    timed.client(read[:_READ])
    return timed.slices_ms


_OPEN = http2.frame(http2.HEADERS, http2.END_HEADERS, 1, http2.request("/t.B/Other"))
_PARTS = http2.frame(http2.HEADERS, http2.END_STREAM, 3) + http2.frame(http2.CONTINUATION, 0, 3) * 30

CASES: Mapping[str, Case] = {
    "http2_pings": _client(http2.frame(http2.PING, 0, 0, bytes(8)), 1_000),
    "http2_settings": _client(http2.frame(http2.SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535) * 300), 100),
    "http2_window_updates": _client(http2.window(1), 10_000),
    "http2_empty_data": _client(http2.frame(http2.DATA, 0, 1), 10_000, _OPEN),
    "http2_tiny_data": _client(http2.frame(http2.DATA, 0, 1, b"x"), 10**6, _OPEN),
    "http2_unknown": _client(http2.frame(99, 0, 0), 10_000),
    "http2_continuations": _client(_PARTS, 1),
    "http2_calls": _calls,
    "http2_tiny_answers": _broker(http2.frame(http2.DATA, 0, 1, b"x")),
    "http2_tiny_answer_windows": _broker(http2.frame(http2.WINDOW_UPDATE, 0, 1, struct.pack(">I", 1))),
}
"""By name in the results."""
