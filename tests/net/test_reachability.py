"""Log lines about a broker's addresses, by a manual clock."""

import logging
import socket
import ssl

import pytest

from sluicegate.net.reachability import Reachability, reason_of

A, B, NODE = ("a.example", 9092), ("b.example", 9092), ("node-7.example", 9092)
SECOND = 1_000_000_000
REFUSED = ConnectionRefusedError(111, "Connection refused")
SILENT = TimeoutError("no answer within 5 s")


class Clock:
    """One broker whose addresses are found to answer or not.

    :param bootstrap: its addresses.
    """

    def __init__(self, *bootstrap: tuple[str, int]) -> None:
        self.now_ns = 1_000 * SECOND
        self.heard = 0
        self.reached = 0
        self.broken: dict[tuple[str, int], Exception] = {}
        self.probes = 0
        self.of = Reachability(
            bootstrap,
            self.now_ns,
            heard=lambda: self.heard,
            reached=self._reach,
            wall_ms=lambda ns: ns // 1_000_000,
        )

    def _reach(self) -> None:
        self.reached += 1

    def up(self) -> bool | None:
        """Whether the broker is up."""
        return self.of.is_up

    def probe(self) -> int:
        """Do the probes that are due now; how many."""
        due = self.of.due(self.now_ns)
        for place in due:
            self.of.probed(place, self.broken.get(place), self.now_ns)
        self.probes += len(due)
        return len(due)

    def seconds(self, count: int) -> int:
        """Let time pass, with a tick each second; how many probes that took."""
        before = self.probes
        for _ in range(count):
            self.now_ns += SECOND
            self.probe()
            self.of.remind(self.now_ns)
        return self.probes - before

    def fail(self, place: tuple[str, int], clients: int = 1) -> None:
        """Clients that cannot be connected."""
        for _ in range(clients):
            self.of.dial_failed(place, self.broken[place], self.now_ns)
            self.of.turned_away(self.now_ns)
        self.probe()


@pytest.fixture(autouse=True)
def log(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="sluicegate.net.reachability")
    return caplog


def lines(log: pytest.LogCaptureFixture) -> list[str]:
    """What was logged since the last look."""
    found = [record.getMessage() for record in log.records]
    log.clear()
    return found


def test_a_broker_that_answers_at_the_start_is_not_logged(log: pytest.LogCaptureFixture) -> None:
    clock = Clock(A)
    assert clock.up() is None
    assert clock.of.snapshot() == {"up": False, "since_ms": None, "reason": "a.example:9092: no answer yet"}
    assert clock.probe() == 1
    assert clock.of.snapshot() == {"up": True, "since_ms": 1_000_000, "reason": ""}
    assert clock.reached == 1
    assert lines(log) == []


def test_an_outage_and_its_end_are_logged_once_each(log: pytest.LogCaptureFixture) -> None:
    clock = Clock(A)
    clock.probe()
    clock.seconds(3)
    clock.broken[A] = REFUSED
    clock.fail(A, clients=100)
    assert clock.of.snapshot() == {
        "up": False,
        "since_ms": 1_003_000,
        "reason": "a.example:9092: connection refused",
    }
    (gone,) = lines(log)
    assert gone.startswith(
        "cannot reach broker at a.example:9092: connection refused; clients are turned away"
    )
    clock.seconds(20)
    assert lines(log) == []
    del clock.broken[A]
    clock.seconds(5)
    assert clock.up()
    assert clock.reached == 2
    (record,) = log.records
    assert record.getMessage() == "broker is reachable again"
    assert vars(record)["clients_turned_away"] == 100
    assert 20 <= vars(record)["down_s"] <= 25


def test_an_outage_with_connected_clients_is_logged_once(log: pytest.LogCaptureFixture) -> None:
    clock = Clock(A)
    clock.probe()
    for _ in range(20):
        clock.heard += 100
        clock.seconds(1)
    clock.heard += 100
    clock.now_ns += SECOND // 2
    clock.broken[A] = REFUSED
    for _ in range(5):
        clock.fail(A)
        clock.seconds(1)
    assert clock.up() is False
    (gone,) = lines(log)
    assert gone.startswith(
        "cannot reach broker at a.example:9092: connection refused; clients are turned away"
    )


def test_a_broker_that_is_down_is_probed_after_1_2_4_and_then_every_5_seconds() -> None:
    clock = Clock(A)
    clock.broken[A] = REFUSED
    clock.probe()
    assert [clock.seconds(1) for _ in range(18)] == [1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0]


def test_an_idle_broker_is_probed_every_10_seconds_and_a_busy_one_never() -> None:
    clock = Clock(A)
    clock.probe()
    assert clock.seconds(40) == 4
    for _ in range(40):
        clock.heard += 100
        assert clock.seconds(1) == 0
    assert clock.seconds(10) == 1


def test_a_silent_broker_is_down_although_clients_are_connected() -> None:
    clock = Clock(A)
    clock.probe()
    clock.heard += 100
    clock.broken[A] = ConnectionError("accepts connections and says nothing within 5 s")
    clock.seconds(21)
    assert clock.of.reason == "a.example:9092: accepts connections and says nothing within 5 s"
    assert clock.up() is False
    assert not clock.of.is_silent(A)


def test_refused_clients_are_logged_once_a_minute(log: pytest.LogCaptureFixture) -> None:
    clock = Clock(A)
    clock.broken[A] = REFUSED
    clock.probe()
    assert len(lines(log)) == 1
    for _ in range(180):
        clock.fail(A, clients=20)
        clock.seconds(1)
    records = list(log.records)
    assert [record.getMessage() for record in records] == [
        "still cannot reach broker at a.example:9092: connection refused"
    ] * 3
    assert [vars(record)["clients_turned_away"] for record in records] == [1200, 1200, 1200]
    log.clear()
    clock.seconds(600)
    assert lines(log) == []


def test_one_failed_address_of_several_is_logged_and_the_broker_is_up(log: pytest.LogCaptureFixture) -> None:
    clock = Clock(A, B)
    clock.broken[B] = REFUSED
    clock.probe()
    assert clock.of.snapshot()["up"]
    assert clock.of.reason == "b.example:9092: connection refused"
    assert lines(log) == [
        "cannot reach broker at b.example:9092: connection refused; clients are served by its other addresses"
    ]
    clock.seconds(30)
    assert lines(log) == []
    del clock.broken[B]
    clock.seconds(5)
    assert lines(log) == ["broker at b.example:9092 is reachable again"]
    assert clock.of.reason == ""
    clock.broken.update({A: REFUSED, B: REFUSED})
    clock.seconds(10)
    assert clock.up() is False
    assert "a.example:9092: connection refused; b.example:9092: connection refused" in lines(log)[-1]


def test_addresses_may_first_answer_in_any_order_without_log_lines(log: pytest.LogCaptureFixture) -> None:
    clock = Clock(A, B)
    assert clock.of.due(clock.now_ns) == [A, B]
    clock.of.probed(B, None, clock.now_ns)
    assert clock.up()
    clock.of.probed(A, None, clock.now_ns + SECOND)
    assert lines(log) == []


def test_a_broker_is_down_only_after_every_address_was_tried(log: pytest.LogCaptureFixture) -> None:
    clock = Clock(A, B)
    clock.of.due(clock.now_ns)
    clock.of.probed(A, REFUSED, clock.now_ns)
    assert clock.up() is None
    clock.of.probed(B, SILENT, clock.now_ns + 5 * SECOND)
    assert clock.up() is False
    assert len(lines(log)) == 1


def test_an_unreachable_node_is_probed_until_it_answers(
    log: pytest.LogCaptureFixture,
) -> None:
    clock = Clock(A)
    clock.probe()
    clock.broken[NODE] = REFUSED
    clock.fail(NODE)
    assert clock.up()
    (gone,) = lines(log)
    assert gone.startswith(
        "cannot reach broker at node-7.example:9092: connection refused; clients are served"
    )
    del clock.broken[NODE]
    clock.seconds(5)
    assert lines(log) == ["broker at node-7.example:9092 is reachable again"]
    assert clock.of.reason == ""


def test_a_node_without_clients_is_forgotten() -> None:
    clock = Clock(A)
    clock.probe()
    clock.broken[NODE] = REFUSED
    clock.fail(NODE)
    clock.seconds(590)
    assert clock.of.reason
    clock.seconds(20)
    assert clock.of.reason == ""


def test_a_broker_whose_nodes_serve_clients_is_up_though_its_bootstrap_list_is_stale(
    log: pytest.LogCaptureFixture,
) -> None:
    clock = Clock(A)
    clock.probe()
    clock.broken[A] = REFUSED
    clock.fail(A)
    lines(log)
    clock.broken.clear()
    clock.seconds(5)
    lines(log)
    clock.broken[A] = REFUSED
    for _ in range(30):
        clock.heard += 1
        clock.of.dial_failed(A, REFUSED, clock.now_ns)
        clock.seconds(1)
    assert clock.up()
    assert clock.of.reason == "a.example:9092: connection refused"
    assert len(lines(log)) == 1


def test_a_slow_dial_is_no_outage_but_affected_clients_are_logged(log: pytest.LogCaptureFixture) -> None:
    clock = Clock(A)
    clock.probe()
    for _ in range(30):
        clock.of.dial_failed(A, SILENT, clock.now_ns)
        clock.of.turned_away(clock.now_ns)
        clock.seconds(2)
        assert clock.up()
    (line,) = lines(log)
    assert line.startswith("the broker answers the gateway, yet clients cannot be connected: a.example:9092")


def test_failed_dials_trigger_at_most_one_probe_a_second() -> None:
    clock = Clock(A)
    clock.probe()
    clock.seconds(1)
    clock.probes = 0
    clock.broken[A] = SILENT
    clock.of.dial_failed(A, SILENT, clock.now_ns)
    del clock.broken[A]
    assert clock.probe() == 1
    for _ in range(100):
        clock.of.dial_failed(A, SILENT, clock.now_ns)
        assert clock.probe() == 0
    assert clock.seconds(1) == 1


def test_clients_do_not_wait_for_an_unresponsive_address() -> None:
    clock = Clock(A)
    clock.broken[A] = SILENT
    assert not clock.of.is_silent(A)
    clock.probe()
    assert clock.of.is_silent(A)
    clock.broken[A] = REFUSED  # tells at once: there is nothing to wait for
    clock.seconds(10)
    assert not clock.of.is_silent(A)


def test_a_connected_client_triggers_a_probe_of_a_broker_that_was_down() -> None:
    clock = Clock(A)
    clock.broken[A] = REFUSED
    clock.probe()
    clock.seconds(13)
    del clock.broken[A]
    assert clock.probe() == 0
    clock.of.dialled(A, clock.now_ns)
    assert clock.probe() == 1
    assert clock.up()


def test_a_probe_that_fails_for_lack_of_descriptors_is_no_outage() -> None:
    clock = Clock(A)
    clock.probe()
    clock.seconds(9)
    clock.now_ns += SECOND
    assert clock.of.due(clock.now_ns) == [A]
    clock.of.unprobed(A, clock.now_ns)
    assert clock.up()
    assert clock.seconds(5) == 1


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "connection refused"),
        (ConnectionRefusedError(111, "Connect call failed ('10.0.0.1', 1)"), "connection refused"),
        (socket.gaierror(-2, "Name or service not known"), "name or service not known"),
        (ssl.SSLCertVerificationError(1, "certificate verify failed"), "certificate verify failed"),
        (TimeoutError("no answer within 5 s"), "no answer within 5 s"),
        (TimeoutError(), "no answer in time"),
        (UnicodeError("label empty or too long"), "label empty or too long"),
    ],
)
def test_reasons_are_the_same_on_every_event_loop(error: Exception, reason: str) -> None:
    assert reason_of(error) == reason
