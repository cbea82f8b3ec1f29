"""Which addresses the gateway connects to, by what the entry says and where it listens."""

import socket
from contextlib import suppress

import pytest

from sluicegate.net.dial_rule import DialRule
from sluicegate_kafka.config import KafkaConfig

OWN = "it is a listener of this gateway itself"
LINK_LOCAL = "it is a link-local address"
LOOPBACK = "it is a loopback address"
ENTRY = {"name": "k", "system": "kafka", "advertised_host": "gate.example", "listen": {"port": 7}}


def rule(*listening: tuple[str, int], bootstrap: str = "10.0.0.1:9092", **options: object) -> DialRule:
    config = KafkaConfig.model_validate(ENTRY | {"bootstrap": [bootstrap]} | options)
    return DialRule(config, lambda: listening)


def refusal(given: DialRule, host: str, port: int, resolved: str = "") -> str:
    """What is refused, without its remedy."""
    text = given.refusal((host, port), resolved or host)
    return text.partition(";")[0].partition(",")[0]


@pytest.mark.parametrize(
    ("resolved", "expected"),
    [
        ("10.0.0.2", ""),
        ("192.168.1.1", ""),
        ("8.8.8.8", ""),
        ("fd00::1", ""),
        ("169.254.169.254", LINK_LOCAL),
        ("fe80::1", LINK_LOCAL),
        ("fe80::1%eth0", LINK_LOCAL),
        ("::ffff:169.254.169.254", LINK_LOCAL),
        ("127.0.0.1", LOOPBACK),
        ("127.1.2.3", LOOPBACK),
        ("::1", LOOPBACK),
        ("::ffff:127.0.0.1", LOOPBACK),
        ("0.0.0.0", LOOPBACK),
        ("::", LOOPBACK),
    ],
)
def test_brokers_cannot_lead_to_addresses_that_only_this_machine_reaches(
    resolved: str, expected: str
) -> None:
    assert refusal(rule(), "broker", 9092, resolved) == expected


@pytest.mark.parametrize("resolved", ["127.0.0.1", "169.254.1.1"])
def test_what_the_entry_writes_out_may_be_anywhere(resolved: str) -> None:
    assert refusal(rule(bootstrap="Broker:9092"), "broker", 9092, resolved) == ""
    assert refusal(rule(known_brokers=["broker:*"]), "BROKER", 9092, resolved) == ""
    assert refusal(rule(known_brokers=["brok*:9092", "*"]), "broker", 9092, resolved) != ""


def test_loopback_is_allowed_where_bootstrap_is_there_itself() -> None:
    here = rule(bootstrap="me:9092")
    assert refusal(here, "127.0.0.1", 9093) == LOOPBACK
    assert refusal(here, "me", 9092, "127.0.1.1") == ""
    assert refusal(here, "127.0.0.1", 9093) == ""
    assert refusal(here, "169.254.1.1", 9093) == LINK_LOCAL


@pytest.mark.parametrize(
    ("bound", "resolved", "expected"),
    [
        ("10.0.0.5", "10.0.0.5", OWN),
        ("10.0.0.5", "::ffff:10.0.0.5", OWN),
        ("10.0.0.5", "10.0.0.6", ""),
        ("127.0.0.1", "0.0.0.0", OWN),
        ("::1", "::", OWN),
        ("127.0.0.1", "::", ""),
        ("0.0.0.0", "127.0.0.1", OWN),
        ("0.0.0.0", "127.3.3.3", OWN),
        ("0.0.0.0", "10.0.0.5", OWN),
        ("0.0.0.0", "10.0.0.6", ""),
        ("::", "::1", OWN),
        ("::", "10.0.0.5", ""),
    ],
)
@pytest.mark.parametrize("is_bootstrap", [True, False])
def test_the_gateway_does_not_connect_to_itself(
    bound: str, resolved: str, expected: str, is_bootstrap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Probe(socket.socket):
        """The kernel's choice of a source, on a machine with the address 10.0.0.5."""

        def connect(self, address: object) -> None:
            pass

        def getsockname(self) -> tuple[str, int]:
            return "10.0.0.5", 1

    monkeypatch.setattr(socket, "socket", Probe)
    given = rule((bound, 9092), ("0.0.0.0", 1), bootstrap="broker:9092" if is_bootstrap else "x:1")
    assert refusal(given, "broker", 9092, resolved).replace(LOOPBACK, "") == expected
    assert refusal(given, "broker", 9091, resolved) in ("", LOOPBACK)


def test_the_advertised_address_leads_to_the_gateway_wherever_it_is() -> None:
    given = rule(("0.0.0.0", 9092), bootstrap="10.0.0.1:9092")
    assert refusal(given, "Gate.example", 9092, "203.0.113.1") == OWN
    assert refusal(given, "gate.example", 9093, "203.0.113.1") == ""
    written_out = rule(("0.0.0.0", 9092), bootstrap="gate.example:9092")
    assert refusal(written_out, "gate.example", 9092, "203.0.113.1") == ""


def test_an_address_of_this_machine_is_told_from_others() -> None:
    given = rule(("0.0.0.0", 9092))
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))
        own = probe.getsockname()[0]
        assert refusal(given, "me", 9092, own) == OWN
    assert refusal(given, "other", 9092, "198.51.100.1") == ""
