from typing import Any

import pytest

from sluicegate.broker import Listener
from sluicegate.broker.broker_ports import BrokerPorts
from sluicegate_danube.brokers import address_of
from sluicegate_danube.config import DanubeConfig

ONE, TWO = ("b1", 6650), ("b2", 6650)


def brokers(facts: dict[str, str] | None = None, **entry: Any) -> BrokerPorts:
    entry = {"bootstrap": ["b1:6650"], "advertised_host": "gate", **entry}
    config = DanubeConfig.model_validate(
        {"name": "main", "system": "danube", "listen": {"port": 16650}, **entry}
    )
    return BrokerPorts(config, facts or {}, address_of)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://b1:6650", ONE),
        ("https://B1:6650/", ONE),
        ("b1:6650", ONE),
        ("http://b1", ("b1", 80)),
        ("[::1]:6650", ("::1", 6650)),
    ],
)
def test_addresses_are_read(url: str, address: tuple[str, int]) -> None:
    assert address_of(url) == address


@pytest.mark.parametrize(
    "url",
    ["", "b1", "http://", "http://:6650", "b1:port", "b1:99999", "http://u@b1:1", "b1:1/path", "b1:1?q"],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        address_of(url)
    assert brokers(known_brokers=["*"]).target(url) is None


def test_only_known_brokers_are_targets() -> None:
    known = brokers(known_brokers=["b9:6650", "10.0.0.*:7000"])
    for url, address in (
        ("http://b1:6650", ONE),
        ("b9:6650", ("b9", 6650)),
        ("10.0.0.7:7000", ("10.0.0.7", 7000)),
    ):
        assert known.target(url) == address
    for other in ("b1:6651", "b2:6650", "10.0.0.7:7001", "evil-10.0.0.7:7000", "b9:66500"):
        assert known.target(other) is None, other


def test_a_single_broker_is_reached_at_the_main_port() -> None:
    known = brokers()
    assert known.start() == []
    assert known.port_of("http://b1:6650") == ("gate", 16650)


def test_each_of_several_brokers_has_a_port_that_it_keeps() -> None:
    known = brokers(bootstrap=["b1:6650", "b2:6650"], known_brokers=["b3:6650"], node_port_base=17000)
    started = known.start()
    assert started == [
        ("broker.0", "b1:6650", Listener("broker-b1:6650", "127.0.0.1", 17000, ())),
        ("broker.1", "b2:6650", Listener("broker-b2:6650", "127.0.0.1", 17001, ())),
    ]
    new: list[tuple[str, str, Listener]] = []
    known.on_new = lambda *one: new.append(one)
    assert known.port_of("http://b3:6650") == ("gate", 17002)
    assert known.port_of("http://b3:6650") == ("gate", 17002)
    assert [(key, value) for key, value, _ in new] == [("broker.2", "b3:6650")]
    assert known.port_of("http://b4:6650") is None

    facts = {key: value for key, value, _ in [*started, *new]}
    again = brokers(facts, bootstrap=["b2:6650"], known_brokers=["b3:6650"], node_port_base=17000)
    assert [listener.port for _, _, listener in again.start()] == [17000, 17002]
    assert again.port_of("b3:6650") == ("gate", 17002)


def test_a_broker_with_ever_new_names_uses_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluicegate.broker.broker_ports._MAX_BROKERS", 3)
    known = brokers(known_brokers=["*:6650"])
    news_of = [known.port_of(f"b{n}:6650") for n in range(1, 6)]
    assert None not in news_of[:4]
    assert news_of[4] is None


def test_after_a_conflict_over_ports_each_broker_has_one_of_its_own() -> None:
    """Two gateways of one store have met new brokers in different orders, and start again."""
    store: dict[str, str] = {}

    def started() -> BrokerPorts:
        def claim(key: str, value: str, _: Listener) -> None:
            store.setdefault(key, value)

        known = brokers(store, known_brokers=["*:6650"], node_port_base=17000)
        known.on_new = claim
        for one in known.start():
            claim(*one)
        return known

    one, other = started(), started()
    for gate, names in ((one, ["b2"]), (other, ["b3", "b2"]), (one, ["b3"])):
        for name in names:
            assert gate.port_of(f"{name}:6650") is not None
    assert store == {"broker.0": "b1:6650", "broker.1": "b2:6650", "broker.2": "b2:6650"}
    names = ["b2", "b3", "b4"]
    ports = [started().port_of(f"{name}:6650") for name in names]
    assert len(set(ports)) == 3
    assert [started().port_of(f"{name}:6650") for name in reversed(names)] == ports[::-1]
    assert ports[0] == one.port_of("b2:6650")


def fact(key: str, value: str) -> dict[str, str]:
    """What a sibling has remembered."""
    return {"key": key, "value": value}


def test_siblings_give_a_new_broker_the_same_port() -> None:
    entry: dict[str, Any] = {"known_brokers": ["*"], "node_port_base": 17000}
    one, other = brokers(**entry), brokers(**entry)
    heard: list[Any] = []
    one.on_new = lambda key, value, listener: heard.append((listener, other.heard(fact(key, value))))
    for url in ("b3:6650", "b2:6650"):
        one.port_of(url)
    assert [(each[0], each[1][2]) for each in heard] == [(each[0], each[0]) for each in heard]
    assert other.port_of("b2:6650") == one.port_of("b2:6650")


def test_a_broker_whose_port_a_sibling_gave_away_first_gets_another() -> None:
    known = brokers(known_brokers=["*"], node_port_base=17000)
    moved: list[tuple[str, str]] = []
    known.on_new = lambda key, value, listener: moved.append((value, listener.name))
    host, port = known.port_of("b8:6650") or ("", 0)
    moved.clear()
    number = port - 17000
    new = known.heard(fact(f"broker.{number}", "b9:6650"))
    assert new is not None
    assert new[2].port == port
    assert known.port_of("b9:6650") == (host, port)
    assert moved == [("b8:6650", "broker-b8:6650")]
    assert known.port_of("b8:6650") == (host, port + 1)
    assert known.heard(fact(f"broker.{number}", "b9:6650")) is None, "it is known"
