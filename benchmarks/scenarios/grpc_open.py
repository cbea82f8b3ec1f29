"""Memory that requests without an end take, sent by one client as fast as it can."""

import socket
import time

from benchmarks.harness import http2_bytes as http2
from benchmarks.harness.arms import Bench
from benchmarks.harness.names import HAPROXY, NGINX, SLUICEGATE
from benchmarks.harness.scenario import Scenario

_REQUESTS = 263_000
_AT_ONCE = 500
_SETTLE_S = 3.0


class Client:
    """Opens streams and never ends one; connects anew when it is hung up on.

    :param address: `host:port`.
    :param path: of the method.
    """

    def __init__(self, address: str, path: str) -> None:
        host, port = address.rsplit(":", 1)
        self._address = host, int(port)
        self._block = http2.packed_request(path)
        self.connections = 0
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.create_connection(self._address)
        self._socket.sendall(http2.HELLO)
        self._stream = 1
        self.connections += 1

    def open(self, count: int) -> None:
        """Send so many requests."""
        try:
            self._socket.sendall(b"".join(self._headers() for _ in range(count)))
            while self._socket.recv(1 << 20, socket.MSG_DONTWAIT):
                pass
        except BlockingIOError:
            return  # nothing more has come
        except OSError:
            pass  # the gate has reset it: as closed
        self.close()
        self._connect()

    def _headers(self) -> bytes:
        self._stream += 2
        return http2.frame(http2.HEADERS, http2.END_HEADERS, self._stream - 2, self._block)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()


def _open(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.grpc.fresh_arm(name)
    assert arm.proxy is not None
    client = Client(arm.address, "/danube.Discovery/TopicLookup")
    client.open(1)
    time.sleep(_SETTLE_S)
    before = arm.proxy.resident_bytes()
    for _ in range(0, _REQUESTS // (10 if quick else 1), _AT_ONCE):
        client.open(_AT_ONCE)
    time.sleep(_SETTLE_S)
    grown = arm.proxy.resident_bytes() - before
    client.close()
    return {"mib_grown": grown / 1024 / 1024, "connections": client.connections}


SCENARIOS = (
    Scenario(
        "grpc-open",
        "memory growth by 263,000 requests that one client begins and never ends",
        (NGINX, HAPROXY, SLUICEGATE),
        _open,
        rounds=2,
        cold_round=False,
    ),
)
