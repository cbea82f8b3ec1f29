"""A proxy between gate and broker that misbehaves for some clients."""

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self

from tests.kafka.real.support.raw import address
from tests.real.ports import free_ports

Answer = Callable[[bytes], bytes]
"""Bytes of a client -> what it gets instead of the broker's answer."""


def hang_up(first: bytes) -> bytes:
    """An `Answer` that closes the connection at once."""
    raise ConnectionAbortedError


class MoodyUpstream:
    """Forwards to a broker, but answers connections whose first bytes hold a certain word by itself.

    :param target: `host:port` of the broker.
    """

    def __init__(self, target: str) -> None:
        self.port = free_ports(1)[0]
        self._target = target
        self._moods: dict[bytes, Answer] = {}
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()

    @property
    def bootstrap(self) -> str:
        """Where the gateway connects."""
        return f"127.0.0.1:{self.port}"

    def on(self, word: bytes, answer: Answer) -> None:
        """Answer connections whose first bytes hold `word`, such as a client id."""
        self._moods[word] = answer

    def off(self, word: bytes) -> None:
        """Forward such connections again, from the next one on."""
        del self._moods[word]

    def up(self) -> None:
        """Listen."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def down(self) -> None:
        """Refuse connections, and end those that are open."""
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._listener.close()
            self._listener = None
        for one in tuple(self._open):
            _end(one)

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):
            while True:
                client, _ = listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        self._open.add(client)
        with suppress(OSError), client:
            first = client.recv(65_536)
            for word, answer in list(self._moods.items()):
                if word in first:
                    client.sendall(answer(first))
                    while client.recv(65_536):
                        pass
                    return
            with socket.create_connection(address(self._target)) as broker:
                broker.sendall(first)
                back = threading.Thread(target=_pump, args=(broker, client), daemon=True)
                back.start()
                _pump(client, broker)
                back.join()
        self._open.discard(client)


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65_536):
            sink.sendall(data)
    _end(source)
    _end(sink)


def _end(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
