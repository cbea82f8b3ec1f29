from typing import Any

import pytest

from sluicegate.broker import Listener
from sluicegate_pulsar.cluster.brokers import Brokers, address_of
from sluicegate_pulsar.config import PulsarConfig

ONE, TWO = ("b1", 6650), ("b2", 6650)


def brokers(facts: dict[str, str] | None = None, **entry: Any) -> Brokers:
    entry = {"bootstrap": ["b1:6650"], "advertised_host": "gate", **entry}
    config = PulsarConfig.model_validate(
        {"name": "main", "system": "pulsar", "listen": {"port": 16650}, **entry}
    )
    return Brokers(config, facts or {})


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("pulsar://b1:6650", ONE),
        ("b1:6650", ONE),
        ("pulsar://b1:6650,b2:6650", ONE),
        ("pulsar://b1", ONE),
        ("pulsar+ssl://b1", ("b1", 6651)),
        ("http://[::1]:8080/", ("::1", 8080)),
    ],
)
def test_addresses_are_read(url: str, address: tuple[str, int]) -> None:
    assert address_of(url) == address


@pytest.mark.parametrize("url", ["", "b1", "pulsar://", "pulsar://:6650", "b1:port", "b1:99999999"])
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        address_of(url)
    assert brokers(known_brokers=["*"]).target(url) is None


def test_only_known_brokers_are_targets() -> None:
    known = brokers(known_brokers=["b9:6650", "10.0.0.*:7000"])
    assert known.target("pulsar://b1:6650") == ONE
    assert known.target("b9:6650") == ("b9", 6650)
    assert known.target("10.0.0.7:7000") == ("10.0.0.7", 7000)
    for other in ("b1:6651", "b2:6650", "10.0.0.7:7001", "evil-10.0.0.7:7000", "b9:66500"):
        assert known.target(other) is None, other


def test_hosts_from_the_admin_api_get_the_ports_of_the_file() -> None:
    known = brokers()
    assert known.target("pulsar://B2:6650") is None
    known.listed(["b2"])
    assert known.target("pulsar://B2:6650") == TWO
    assert known.target("pulsar://b2:22") is None


def test_a_single_broker_is_reached_at_the_main_port() -> None:
    assert brokers().advertised(ONE) == ("gate", 16650)
    assert brokers().translate("pulsar://b1:6650", tls=False) == "pulsar://gate:16650"
    assert brokers().translate("pulsar://b1:6650", tls=True) == "pulsar+ssl://gate:16650"
    assert brokers().translate("pulsar://elsewhere:6650", tls=False) is None


def test_a_broker_discovered_later_gets_its_own_port() -> None:
    known = brokers(known_brokers=["b2:6650"])
    assert known.start() == []
    assert known.advertised(TWO) == ("gate", 16652)
    assert known.advertised(ONE) == ("gate", 16650)


WEB: dict[str, Any] = {"admin": {"url": "http://b1:8080"}, "web": {"listen": {"port": 18080}}}


def test_each_broker_has_its_port_where_clients_look_up_over_http() -> None:
    """The web listener, in another process, names only ports that are open."""
    found: list[tuple[str, str, Listener]] = []
    known = brokers(bootstrap=["service:6650"], **WEB)
    assert known.start() == []
    known.on_new = lambda *new: found.append(new)
    known.listed(["B2", "b1", "service"])
    known.listed(["b1", "b2"])
    known.met(("unknown", 6650))
    assert [(key, value) for key, value, _ in found] == [("broker.1", "b1:6650"), ("broker.2", "b2:6650")]
    assert found[1][2] == Listener("broker-b2:6650", "127.0.0.1", 16653, ())


def test_check_knows_the_port_of_a_single_broker_with_another_name() -> None:
    entry = {"name": "main", "system": "pulsar", "bootstrap": ["service:6650"], "listen": {"port": 16650}}
    without, beside = (PulsarConfig.model_validate({**entry, **more}) for more in ({}, WEB))
    assert [(ports.first, ports.count) for ports in without.ports()] == [(16650, 1)]
    assert [(ports.first, ports.count, ports.is_certain) for ports in beside.ports()] == [
        (16650, 1, True),
        (16652, 1, False),
        (18080, 1, True),
    ]


@pytest.mark.parametrize("entry", [{}, {**WEB, "listen": {"port": 0}}])
def test_no_port_is_opened_where_none_is_needed(entry: dict[str, Any]) -> None:
    found: list[tuple[str, str, Listener]] = []
    known = brokers(**entry)
    known.start()
    known.on_new = lambda *new: found.append(new)
    known.listed(["b2"])
    known.met(TWO)
    assert found == []


def test_each_of_several_brokers_keeps_its_port() -> None:
    found: list[tuple[str, str, Listener]] = []
    several = brokers(bootstrap=["b1:6650", "b2:6650"], known_brokers=["b3:6650"])
    found += several.start()
    several.on_new = lambda *new: found.append(new)
    assert several.advertised(("b3", 6650)) == ("gate", 16653)
    assert several.advertised(TWO) == ("gate", 16652)
    assert [(key, value) for key, value, _ in found] == [
        ("broker.0", "b1:6650"),
        ("broker.1", "b2:6650"),
        ("broker.2", "b3:6650"),
    ]
    assert found[2][2] == Listener("broker-b3:6650", "127.0.0.1", 16653, ())

    later = brokers({"broker.0": "b3:6650", "broker.1": "b2:6650"}, bootstrap=["b1:6650", "b2:6650"])
    later.start()
    assert later.advertised(("b3", 6650)) == ("gate", 16651)
    assert later.advertised(ONE) == ("gate", 16653)
    assert later.advertised(TWO) == ("gate", 16652)


def test_hosts_may_be_written_in_capitals() -> None:
    known = brokers(bootstrap=["B1.Example:6650"])
    assert known.target("pulsar://B1.Example:6650") == ("b1.example", 6650)
    assert known.translate("pulsar://b1.example:6650", tls=False) == "pulsar://gate:16650"


def test_ipv6_addresses_are_written_in_brackets() -> None:
    entry: dict[str, Any] = {"bootstrap": ["[::1]:6650", "b2:6650"], "known_brokers": ["[fd00::*]:6650"]}
    several = brokers(**entry)
    facts = {key: value for key, value, _ in several.start()}
    assert facts == {"broker.0": "[::1]:6650", "broker.1": "b2:6650"}
    assert brokers(facts, **entry).advertised(("::1", 6650)) == ("gate", 16651)
    assert several.target("pulsar://[fd00::7]:6650") == ("fd00::7", 6650)
    at_six = brokers(advertised_host="fd00::1")
    assert at_six.translate("pulsar://b1:6650", tls=False) == "pulsar://[fd00::1]:16650"
