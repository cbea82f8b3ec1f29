"""A small file system that really fills, and a server that answers as Prometheus does, or not."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.real.volumes import mounted


@pytest.fixture
def small_volume(tmp_path: Path) -> Iterator[Path]:
    """A file system of 4 MiB, mounted for one test."""
    with mounted(tmp_path / "volume", 4) as where:
        yield where


class PrometheusDouble:
    """Answers instant queries; what it does besides is up to the test."""

    def __init__(self) -> None:
        self.series: dict[str, list[tuple[dict[str, str], str]]] = {}
        """Labels and value of each series, by query."""
        self.answers: dict[str, bytes] = {}
        """Bodies to answer instead, by query."""
        self.status = 200
        self.hold = threading.Event()
        """Answers wait for it; set from the beginning."""
        self.hold.set()
        self.authorization: list[str | None] = []
        self.on_query: Callable[[int], None] = lambda port: None
        """Called with the port of who asks, who waits meanwhile."""
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                double.authorization.append(self.headers.get("Authorization"))
                double.on_query(self.client_address[1])
                double.hold.wait()
                parts = urlsplit(self.path)
                body = double.body(parts.path, parse_qs(parts.query)["query"][0])
                try:
                    self.send_response(double.status)
                    self.end_headers()
                    self.wfile.write(body)
                except ConnectionError:
                    pass  # who asked has gone

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def serve_tls(self, cert: str, key: str) -> None:
        """Speak TLS from now on."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        # The handshake belongs to the thread of its connection, where it may fail.
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )

    def body(self, path: str, query: str) -> bytes:
        assert path == "/prometheus/api/v1/query"
        if query in self.answers:
            return self.answers[query]
        result = [
            {"metric": labels, "value": [1_700_000_000.1, value]}
            for labels, value in self.series.get(query, [])
        ]
        told = {"status": "success", "data": {"resultType": "vector", "result": result}}
        return json.dumps(told).encode()

    def close(self) -> None:
        self.hold.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def prometheus() -> Iterator[PrometheusDouble]:
    double = PrometheusDouble()
    yield double
    double.close()
