"""Sockets shared with another process: changes here do not affect it."""

import os
import socket

from sluicegate.net.listening import descriptors


def test_received_sockets_are_not_inherited_by_children() -> None:
    here, there = descriptors.pair()
    with here, there, socket.create_server(("127.0.0.1", 0)) as bound:
        descriptors.send(here, {}, [bound])
        received = descriptors.receive(there)
        assert received is not None
        [descriptor] = received[1]
        with socket.socket(fileno=descriptor) as copy:
            assert not os.get_inheritable(copy.fileno())
            assert copy.getsockname() == bound.getsockname()


def test_receiving_or_duplicating_keeps_the_owners_socket_non_blocking() -> None:
    here, there = descriptors.pair()
    with here, there, socket.create_server(("127.0.0.1", 0)) as bound:
        bound.setblocking(False)
        descriptors.send(here, {}, [bound])
        received = descriptors.receive(there)
        assert received is not None
        [descriptor] = received[1]
        with socket.socket(fileno=descriptor) as copy, descriptors.duplicate(copy) as second:
            assert not os.get_inheritable(second.fileno())
            assert not os.get_blocking(bound.fileno())
