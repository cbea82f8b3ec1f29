"""Lookups over HTTP lead to the gateway."""

import json
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.pulsar.web.fake_admin import FakeAdmin
from tests.pulsar.web.lab import FakeServices, config, lab_of

from sluicegate_pulsar.cluster.redirects import RedirectRefusedError, origin
from sluicegate_pulsar.web.http_errors import WebError
from sluicegate_pulsar.web.lookups import rewritten
from sluicegate_pulsar.web.rewritten_addresses import WebAddresses, translation

PATHS = [
    "/lookup/v2/topic/persistent/public/default/orders",
    "/lookup/v2/topic/persistent/tenant/cluster/ns/orders",
    "/lookup/v2/destination/persistent/tenant/cluster/ns/orders",
]
ANSWER = {
    "brokerUrl": "pulsar://127.0.0.1:6650",
    "brokerUrlTls": "pulsar+ssl://127.0.0.1:6651",
    "httpUrl": "http://127.0.0.1:8080",
    "httpUrlTls": "https://127.0.0.1:8443",
    "nativeUrl": "pulsar://127.0.0.1:6650",
    "brokerUrlSsl": "",
}


@pytest.mark.parametrize("path", PATHS)
async def test_a_lookup_names_only_the_gateway(admin: FakeAdmin, path: str) -> None:
    answer = {**ANSWER, "newUrl": "pulsar://127.0.0.1:6650"}
    admin.fixed[path] = (200, {"content-type": "application/json"}, json.dumps(answer).encode())
    async with lab_of(admin, FakeServices()) as lab:
        found = await lab.get(
            path, headers={"X-Pulsar-ListenerName": "inner"}, params={"authoritative": "true"}
        )

        assert admin.seen[-1].header("x-pulsar-listenername") == "inner"
        assert admin.seen[-1].target == f"{path}?authoritative=true"
        assert found.status_code == 200
        assert int(found.headers["content-length"]) == len(found.content)
        assert found.json() == {
            "brokerUrl": "pulsar://127.0.0.1:16650",
            "brokerUrlTls": "",
            "httpUrl": None,
            "httpUrlTls": None,
            "nativeUrl": "pulsar://127.0.0.1:16650",
            "brokerUrlSsl": "",
        }


async def test_web_addresses_are_rewritten_to_the_gateway(admin: FakeAdmin) -> None:
    async with lab_of(admin, FakeServices()) as lab:
        answer = {**ANSWER, "httpUrl": lab.admin_url}
        admin.fixed[PATHS[0]] = (200, {}, json.dumps(answer).encode())
        assert (await lab.get(PATHS[0])).json()["httpUrl"] == lab.url


async def test_an_unknown_broker_is_named_only_in_the_log(
    admin: FakeAdmin, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    admin.fixed[PATHS[0]] = (200, {}, b'{"brokerUrl": "pulsar://elsewhere:6650"}')
    async with lab_of(admin, FakeServices()) as lab:
        answer = await lab.get(PATHS[0])
        assert answer.status_code == 503
        reason = "the topic is served by a broker for which the gateway has no port"
        assert answer.json()["reason"] == reason
        assert f"{reason} (pulsar://elsewhere:6650: name it in `bootstrap`)" in caplog.text


@pytest.mark.parametrize(
    ("status", "content"), [(200, b"0x40_0x80"), (200, b"[1]"), (404, b'{"reason": "x"}'), (200, b"{}")]
)
async def test_responses_without_an_address_are_unchanged(
    admin: FakeAdmin, status: int, content: bytes
) -> None:
    admin.fixed[PATHS[0]] = (status, {"content-type": "text/plain"}, content)
    async with lab_of(admin, FakeServices()) as lab:
        answer = await lab.get(PATHS[0])
        assert (answer.status_code, answer.content) == (status, content)
        assert answer.headers["content-type"] == "text/plain"


async def test_an_endless_response_is_refused(admin: FakeAdmin) -> None:
    admin.fixed[PATHS[0]] = (200, {}, b"x" * (4 * 2**20 + 1))
    async with lab_of(admin, FakeServices()) as lab:
        assert (await lab.get(PATHS[0])).status_code == 502


def test_with_tls_every_address_field_names_the_gateway() -> None:
    def translate(url: str) -> str | None:
        return "pulsar+ssl://gate:6651" if url.endswith(":6651") else None

    found = rewritten(json.dumps(ANSWER).encode(), translate, lambda url: None)
    assert found is not None
    said = json.loads(found)
    assert {said[key] for key in ("brokerUrl", "nativeUrl", "brokerUrlTls", "brokerUrlSsl")} == {
        "pulsar+ssl://gate:6651"
    }


urls = st.sampled_from(["pulsar://b:1", "pulsar+ssl://b:2", "http://b:3", "https://b", "b:4", "", "x"])
ADDRESSES = ("brokerUrl", "brokerUrlTls", "brokerUrlSsl", "nativeUrl")
documents = st.dictionaries(
    st.sampled_from([*ANSWER, "other"]), urls | st.none() | st.integers() | st.lists(urls), max_size=7
)


@given(documents, st.booleans())
def test_no_address_of_a_broker_remains(document: dict[str, object], known: bool) -> None:
    def translate(url: str) -> str | None:
        return "pulsar://gate:9" if known else None

    content = json.dumps(document).encode()
    if not any(document.get(key) for key in ADDRESSES):
        assert rewritten(content, translate, lambda url: None) is None
    elif not known:
        with pytest.raises(WebError):
            rewritten(content, translate, lambda url: None)
    else:
        found = json.loads(rewritten(content, translate, lambda url: None) or b"")
        assert not any("://b" in value for value in found.values() if isinstance(value, str))
        assert {found[key] for key in ("brokerUrl", "nativeUrl") if key in found} <= {"pulsar://gate:9"}


FACTS = {"broker.0": "127.0.0.1:6650", "broker.1": "second:6650", "other.1": "third:6650"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("pulsar://127.0.0.1:6650", "pulsar://gate:16650"),
        ("pulsar://second:6650", "pulsar://gate:16652"),
        ("pulsar+ssl://second:6650", "pulsar://gate:16652"),
        ("pulsar://third:6650", None),
        ("pulsar://second:6651", None),
        ("pulsar://", None),
        ("pulsar://second:x", None),
        ("", None),
    ],
)
def test_known_brokers_are_those_of_the_worker(url: str, expected: str | None) -> None:
    services = FakeServices(facts=FACTS)
    translate = translation(config("http://127.0.0.1:8080", advertised_host="gate"), services.recall)
    assert translate(url) == expected


@pytest.mark.parametrize(
    ("url", "known"),
    [
        ("http://admin:8080/x", True),
        ("http://ADMIN:8080", True),
        ("http://127.0.0.1:8080", True),
        ("http://second:8080/a?b", True),
        ("http://pulsar-7.local:8080", True),
        ("http://pulsar-7.local:8081", False),
        ("http://second:22", False),
        ("http://elsewhere:8080", False),
        ("http://admin@elsewhere:8080", False),
        ("http://elsewhere:8080@admin:8080", False),
        ("gopher://admin:8080", False),
        ("http://admin:99999", False),
        ("http://[::1", False),
        ("/admin", False),
    ],
)
def test_web_addresses_belong_to_known_brokers(url: str, known: bool) -> None:
    services = FakeServices(facts=FACTS)
    addresses = WebAddresses(
        config("http://admin:8080", known_brokers=["pulsar-*.local:6650"]), services.recall
    )
    assert addresses.known(url) == (origin(url) if known else None)


def test_a_cluster_that_is_asked_over_https_is_asked_so_everywhere() -> None:
    entry = config("https://admin:8443", known_brokers=["b2:8080", "b3:8443"])
    addresses = WebAddresses(entry, FakeServices(facts=FACTS).recall)
    for plain in ("http://admin:8443", "http://b2:8080", "http://second:8443"):
        assert addresses.known(plain) is None
        with pytest.raises(RedirectRefusedError, match="is not encrypted"):
            addresses.follow("https://admin:8443/a", plain)
    for secure in ("https://admin:8443", "https://b3:8443", "https://second:8443"):
        assert addresses.known(secure) == secure


def test_a_web_listener_needs_an_admin_api() -> None:
    with pytest.raises(ValidationError, match="'web' needs the admin API behind it"):
        config("http://a:1", admin=None)
    with pytest.raises(ValueError, match="expected `admin`"):
        WebAddresses(config("http://a:1", admin=None, web=None), FakeServices().recall)
