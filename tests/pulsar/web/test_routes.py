"""What a request is about."""

import pytest

from sluicegate.model import Level
from sluicegate_pulsar.web.http_errors import WebError
from sluicegate_pulsar.web.routes import Delayed, Deletable, Lookup, Other, route


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/admin/v2/persistent/t/n/x/delayedDelivery", "persistent://t/n/x"),
        ("/admin/v2/non-persistent/t/n/x/delayedDelivery", "non-persistent://t/n/x"),
        ("/admin/v2/persistent/t/n/x/delayedDelivery/", "persistent://t/n/x"),
        ("//admin//v2/persistent/t/n/x/delayedDelivery", "persistent://t/n/x"),
        ("/admin/v2/persistent/t/n/x-partition-12/delayedDelivery", "persistent://t/n/x"),
        ("/admin/v2/persistent/t/n/a%2Fb%20c+d%2Be/delayedDelivery", "persistent://t/n/a/b c d+e"),
        ("/admin/v2/persistent/t/n/%C3%A4/delayedDelivery", "persistent://t/n/ä"),
        ("/admin/v2/%70ersistent/t/n/x/delayedDeliver%79", "persistent://t/n/x"),
    ],
)
def test_a_topics_policy(path: str, name: str) -> None:
    found = route(path)
    assert isinstance(found, Delayed)
    assert (found.level, found.name) == (Level.TOPIC, name)


def test_a_namespaces_policy() -> None:
    found = route("/admin/v2/namespaces/t/n/delayedDelivery")
    assert isinstance(found, Delayed)
    assert (found.level, found.name) == (Level.NAMESPACE, "t/n")


@pytest.mark.parametrize(
    ("path", "level", "name"),
    [
        ("/admin/v2/persistent/t/n/x", Level.TOPIC, "persistent://t/n/x"),
        ("/admin/v2/persistent/t/n/delayedDelivery", Level.TOPIC, "persistent://t/n/delayedDelivery"),
        ("/admin/v2/non-persistent/t/n/a%2Fb/partitions", Level.TOPIC, "non-persistent://t/n/a/b"),
        ("/admin/v2/namespaces/t/n", Level.NAMESPACE, "t/n"),
        ("/admin/v2/tenants/t", Level.BROKER, "t"),
    ],
)
def test_what_can_be_deleted(path: str, level: Level, name: str) -> None:
    assert route(path) == Deletable(level, name)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/admin/v2/persistent/t/n/x-partition-3",
        f"/admin/v2/persistent/t/n/{'x' * 1025}",
        "/admin/v2/persistent/t/n/x/delayedDelivery/more",
        "/admin/v2/other/t/n/x/delayedDelivery",
        "/admin/v2/namespaces/t/c/n/delayedDelivery",
        "/admin/v2/delayedDelivery",
        "/admin/v3/persistent/t/n/x/delayedDelivery",
        "/admin/v2/persistent/t/n/x/DelayedDelivery",
        "/metrics",
        "/lookups",
    ],
)
def test_everything_else(path: str) -> None:
    assert route(path) == Other()


@pytest.mark.parametrize("path", ["/lookup", "/lookup/v2/topic/persistent/t/n/x", "/%6cookup/v2/x"])
def test_lookups(path: str) -> None:
    assert route(path) == Lookup()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/admin/v2/persistent/t/n/%2F/delayedDelivery", 412),
        ("/admin/v2/persistent/t%2Fu/n/x/delayedDelivery", 412),
        ("/admin/v2/persistent/t/n/" + "x" * 2000 + "/delayedDelivery", 412),
        ("/admin/v2/persistent/t/n/x%00/delayedDelivery", 400),
        ("/admin/v2/persistent/t/n/../delayedDelivery", 400),
        ("/admin/./v2", 400),
        ("/a;b", 400),
        ("", 400),
        ("*", 400),
        ("http://broker:8080/topics/persistent/t/n/x", 400),
        ("/topics%2Fpersistent/t/n/x", 400),
        ("/admin/v2%2Fpersistent/t/n/x/delayedDelivery", 400),
        ("/admin/v2/persistent/t/n/x/delayedDelivery#", 400),
        ("/ws", 403),
        ("/topics", 403),
    ],
)
def test_paths_that_are_not_served(path: str, status: int) -> None:
    with pytest.raises(WebError) as refused:
        route(path)
    assert refused.value.status == status
