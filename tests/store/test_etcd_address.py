"""What an etcd URL may say, and what it may not."""

import pytest

from sluicegate.store import StoreError
from sluicegate.store.metadata import open_metadata
from sluicegate.store.metadata.etcd.address import EtcdAddress, etcd_address
from sluicegate.store.metadata.etcd.channels import Connection


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("etcd://a", EtcdAddress(("a:2379",))),
        ("etcd://a:1/", EtcdAddress(("a:1",))),
        ("etcd://a,b:2/gates/eu/", EtcdAddress(("a:2379", "b:2"), "/gates/eu")),
        ("etcd://[::1]:2379/x%20y", EtcdAddress(("[::1]:2379",), "/x y")),
        (
            "etcd://u:p%40%3A@a/x?timeout=500ms",
            EtcdAddress(("a:2379",), "/x", user="u", password="p@:", timeout_s=0.5),
        ),
        ("etcd://u@a?password_file=f", EtcdAddress(("a:2379",), user="u", password_file="f")),
        (
            "etcds://a/x?ca=ca.pem&cert=c.pem&key=%2Fk.pem",
            EtcdAddress(("a:2379",), "/x", tls=True, ca="ca.pem", cert="c.pem", key="/k.pem"),
        ),
    ],
)
def test_a_url_that_is_right(url: str, address: EtcdAddress) -> None:
    assert etcd_address(url) == address


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("etcd://", "member '' is not host:port"),
        ("etcd:///x", "member '' is not host:port"),
        ("etcd://a:0", "member 'a:0' is not host:port"),
        ("etcd://a,,b", "member '' is not host:port"),
        ("etcd://::1", "member '::1' is not host:port"),
        ("etcd://a:65536", "not host:port"),
        ("etcd://u:secret/x@a", "percent-encode these in user and password"),
        ("etcd://u:1/secret@a", "an @ after its hosts"),
        ("etcd://u:x?secret@a", "an @ after its hosts"),
        ("etcd://u:x@secret/y@a", "an @ after its hosts"),
        ("etcd://:secret@a", "a password without a user"),
        ("etcd://u:secret@a?password_file=f", "password_file replaces the password of a user"),
        ("etcd://a?ca=x", "'ca' of an etcd URL requires TLS: write etcds://"),
        ("etcds://a?cert=x", "one of cert and key"),
        ("etcd://a?timout=1s", "no option 'timout': known options: ca, cert, key, password_file, timeout"),
        ("etcd://a?timeout=1s&timeout=2s", "a duplicate option"),
        ("etcd://a?timeout=", "is empty"),
        ("etcd://a?timeout=soon", "timeout 'soon' of an etcd URL is not a duration"),
        ("etcd://a?timeout=0s", "is not a duration: write for example 2s or 500ms"),
    ],
)
def test_a_url_that_is_wrong(url: str, told: str) -> None:
    with pytest.raises(StoreError) as refused:
        etcd_address(url)
    assert told in str(refused.value)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("url", ["", "etcd:a", "http://a", "sqlite:///etcd://a", "memory:"])
def test_urls_of_other_stores(url: str) -> None:
    assert etcd_address(url) is None


def test_a_password_is_not_shown() -> None:
    address = etcd_address("etcd://u:hunter2@a")
    assert "hunter2" not in f"{address} {address!r}"


async def test_a_metadata_store_has_the_prefix_that_its_url_names_and_no_other() -> None:
    """Keys of a Danube cluster begin with none."""
    for url, prefix in (("etcd://a", ""), ("etcd://a/x", "/x")):
        opened = open_metadata(url)
        assert opened is not None
        await opened[0].close()
        assert opened[1] == prefix


def test_of_two_calls_that_one_member_fails_only_the_first_leaves_it() -> None:
    """Otherwise both together would pass over the next member, which may be the only one that lives."""
    connection = Connection(EtcdAddress(("a:1", "b:1", "c:1")))
    failed = connection.member
    connection.leave_member(failed)
    connection.leave_member(failed)
    assert connection.member == failed + 1
    for _ in range(2):
        connection.leave_member(connection.member)
    assert connection.member == failed
