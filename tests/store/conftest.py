"""A real etcd for the tests below this folder; without one they skip and say why."""

from collections.abc import Iterator
from itertools import count

import pytest
from benchmarks.harness.etcd import Etcd, why_no_etcd
from tests.real.needs import need

_numbers = count(1)


@pytest.fixture(scope="package")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One member for all tests, each below a prefix of its own."""
    need(why_no_etcd())
    with Etcd(tmp_path_factory.mktemp("etcd")) as member:
        yield member


@pytest.fixture
def own_etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    """One that the test may kill and start again."""
    need(why_no_etcd())
    with Etcd(tmp_path_factory.mktemp("etcd")) as member:
        yield member


@pytest.fixture
def etcd_url(etcd: Etcd) -> str:
    """The shared etcd's URL with a prefix of the test's own."""
    return f"{etcd.url}/test{next(_numbers)}"
