"""Listening sockets that a process takes over from the one before it."""

import errno
import os
import socket
from collections.abc import Iterator

import pytest

from sluicegate.net.listening.sockets import Inherited, bind, passed_by_systemd, refused_address

_HOST = "127.0.0.1"


@pytest.fixture
def bound() -> Iterator[socket.socket]:
    with socket.create_server((_HOST, 0)) as server:
        yield server


def _port(listening: socket.socket) -> int:
    port: int = listening.getsockname()[1]
    return port


def test_a_socket_is_matched_by_its_address_and_not_its_name(bound: socket.socket) -> None:
    inherited = Inherited([("other", bound)])
    assert inherited.take("bootstrap", "0.0.0.0", _port(bound)) is None
    assert inherited.take("bootstrap", _HOST, _port(bound) + 1) is None
    assert inherited.take("bootstrap", _HOST, _port(bound)) is bound
    assert inherited.take("bootstrap", _HOST, _port(bound)) is None


def test_a_listener_on_port_0_keeps_its_previous_port(bound: socket.socket) -> None:
    inherited = Inherited([("admin", bound)])
    assert inherited.take("bootstrap", _HOST, 0) is None
    assert inherited.take("admin", _HOST, 0) is bound


def test_a_listener_without_a_predecessor_is_bound() -> None:
    with bind("admin", _HOST, 0, socket.AF_INET, Inherited()) as made:
        assert _port(made)


def test_the_error_for_an_address_in_use_says_what_to_do(bound: socket.socket) -> None:
    with pytest.raises(OSError, match="in use") as refused:
        bind("main", _HOST, _port(bound), socket.AF_INET)
    error = refused_address("main", _HOST, _port(bound), refused.value)
    assert error.strerror == (
        f"cannot listen on {_HOST}:{_port(bound)} (main): Address already in use: "
        "end what listens there, or choose another port"
    )


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        (errno.EADDRNOTAVAIL, "an address of this machine"),
        (errno.EACCES, "a port above 1023"),
        (socket.EAI_NONAME, "correct the host's name"),
    ],
)
def test_other_refused_addresses_have_a_remedy(code: int, remedy: str) -> None:
    error = refused_address("main", "host", 80, OSError(code, "no"))
    assert str(error.strerror).startswith("cannot listen on host:80 (main): ")
    assert remedy in str(error.strerror)


def test_unclaimed_sockets_are_closed(bound: socket.socket) -> None:
    inherited = Inherited([("gone", bound)])
    inherited.close()
    assert bound.fileno() == -1


def test_sockets_that_systemd_passed_to_another_process_are_ignored() -> None:
    assert passed_by_systemd({}) == []
    assert passed_by_systemd({"LISTEN_PID": str(os.getppid()), "LISTEN_FDS": "2"}) == []
