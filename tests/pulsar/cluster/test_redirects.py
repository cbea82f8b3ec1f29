"""Where requests with credentials may be redirected to."""

import pytest

from sluicegate.broker.broker_ports import Address
from sluicegate_pulsar.cluster.redirects import RedirectRefusedError, redirected


def is_own(address: Address) -> bool:
    return address[0] in ("own", "::1")


@pytest.mark.parametrize(
    ("asked", "location", "url"),
    [
        ("http://own:8080/a", "/b?c", "http://own:8080/b?c"),
        ("http://own:8080/a", "//own:9/b", "http://own:9/b"),
        ("http://own/a", "https://OWN/b", "https://OWN/b"),
        ("https://own/a", "https://[::1]:8443/b", "https://[::1]:8443/b"),
    ],
)
def test_redirects_among_brokers_are_followed(asked: str, location: str, url: str) -> None:
    assert redirected(asked, location, is_own) == url


@pytest.mark.parametrize(
    ("asked", "location", "text"),
    [
        ("http://own/a", "http://partner:8080/a?key=1", "http://partner:8080 is no known broker"),
        ("http://own/a", "//own.partner/a", "http://own.partner:80 is no known broker"),
        ("http://own/a", "http://own,partner/a", "http://own,partner:80 is no known broker"),
        ("https://own/a", "http://own/a", "http://own:80 is not encrypted"),
        ("http://own/a", "http://partner@own/a", "is no web address"),
        ("http://own/a", "http://own:x/a", "is no web address"),
        ("http://own/a", "http://[own/a", "is no web address"),
        ("http://own/a", "ftp://own/a", "is no web address"),
        ("http://own/a", "http://own/\xe4", "is no web address"),
    ],
)
def test_redirects_elsewhere_are_refused(asked: str, location: str, text: str) -> None:
    with pytest.raises(RedirectRefusedError) as error:
        redirected(asked, location, is_own)
    assert text in str(error.value)
    assert "key" not in str(error.value)
