"""A real etcd for the tests below this folder; without one they skip and say why."""

from collections.abc import Iterator
from itertools import count
from time import monotonic

import pytest
from benchmarks.harness.etcd import Etcd, why_no_etcd
from tests.real.needs import need
from tests.waiting import LONG_S

from sluicegate.store import replica
from sluicegate.store.metadata.etcd import address

_numbers = count(1)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an etcd that is well take its time, wherever a URL names no time-out.

    One that is down is noticed at once: it refuses connections.
    """
    named = address._timeout_s
    monkeypatch.setattr(address, "_timeout_s", lambda text: LONG_S if text == "2s" else named(text))


class Clock:
    """What copies of policies tell their age by: it runs, and can be turned on."""

    def __init__(self) -> None:
        self._turned_s = 0.0

    def __call__(self) -> float:
        return monotonic() + self._turned_s

    def turn(self) -> None:
        """Make all copies old that are not confirmed anew."""
        self._turned_s += 10 * LONG_S


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the copies of policies, which are confirmed often."""
    made = Clock()
    monkeypatch.setattr(replica, "monotonic", made)
    monkeypatch.setattr(replica, "_CONFIRM_S", 0.05)
    return made


@pytest.fixture(scope="package")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One member for all tests, each below a prefix of its own."""
    need(why_no_etcd())
    with Etcd(tmp_path_factory.mktemp("etcd")) as member:
        yield member


@pytest.fixture
def own_etcd(patient: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One that the test may kill and start again."""
    need(why_no_etcd())
    with Etcd(tmp_path_factory.mktemp("etcd")) as member:
        yield member


@pytest.fixture
def etcd_url(patient: None, etcd: Etcd) -> str:
    """The shared etcd's URL with a prefix of the test's own."""
    return f"{etcd.url}/test{next(_numbers)}"
