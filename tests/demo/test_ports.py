"""Ports for servers that live for a moment: free, each given once, out of a range that is named."""

import socket

import pytest

from sluicegate.demo import ports
from sluicegate.demo.ports import RANGE, free_ports


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "_given", set())


def test_no_port_is_returned_twice_even_if_none_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RANGE, "11000-11400")
    runs = [free_ports(3) for _ in range(20)]
    given = [port for first in runs for port in range(first, first + 3)]
    assert len(set(given)) == 60
    assert all(11_000 <= port < 11_400 for port in given)


def test_a_port_that_is_taken_is_not_given(monkeypatch: pytest.MonkeyPatch) -> None:
    free = free_ports(2)
    monkeypatch.setattr(ports, "_given", set())
    monkeypatch.setenv(RANGE, f"{free}-{free + 2}")
    with socket.create_server(("127.0.0.1", free + 1)):
        assert free_ports(1) == free
        monkeypatch.setattr(ports, "_given", set())
        with pytest.raises(OSError, match=f"no 2 consecutive free ports between {free} and {free + 2}"):
            free_ports(2)


@pytest.mark.parametrize("named", ["12000", "a-b", "14000-12000", "1-70000"])
def test_a_range_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    monkeypatch.setenv(RANGE, named)
    with pytest.raises(ValueError, match="expected two ports such as 12000-14000"):
        free_ports(1)
