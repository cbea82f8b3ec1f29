"""Who may publish, and what is counted."""

import pytest
from tests.pulsar.session.messages import (
    JAVA,
    TOPIC,
    frame,
    parse,
    producer,
    producer_success,
    receipt,
    send,
)
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.codec import pulsar_pb2 as pb

pytestmark = pytest.mark.seed("S1-001", "S1-043")


def producers(bench: Bench, topic: str = TOPIC) -> int:
    """How many producers count on a topic."""
    return len(bench.gates.states[topic].producers) if topic in bench.gates.states else 0


def opened(bench: Bench, *names: str, **options: object) -> Wire:
    """A connection with producers 0, 1, ... that the broker has admitted under these names."""
    wire = Wire(bench, **options)  # type: ignore[arg-type]
    for number, name in enumerate(names):
        wire.client_sends(producer(number, request_id=number))
        wire.broker_sends(producer_success(number, name))
    wire.sent_up()
    wire.sent_down()
    return wire


def test_a_producer_within_the_limit_passes_unchanged() -> None:
    wire = Wire(Bench(max_producers_per_topic=1))
    wire.client_sends(producer())
    assert wire.sent_up() == [producer()]
    wire.broker_sends(producer_success())
    assert wire.sent_down() == [producer_success()]


def test_a_producer_over_the_limit_gets_pulsars_error() -> None:
    bench = Bench(max_producers_per_topic=1)
    wire = opened(bench, "a")
    wire.client_sends(producer(1, request_id=7))
    assert wire.sent_up() == []
    (answer,) = wire.answered()
    assert (answer.error.request_id, answer.error.error) == (7, pb.PRODUCER_BUSY)
    assert answer.error.message == f"Topic '{TOPIC}' reached max producers limit [sluicegate 1]"
    assert producers(bench) == 1


@pytest.mark.parametrize("name", ["orders", "public/default/orders", TOPIC])
def test_all_spellings_of_a_topic_share_one_limit(name: str) -> None:
    bench = Bench(max_producers_per_topic=1)
    opened(bench, "a")
    other = Wire(bench, peer="10.0.0.2:1")
    other.client_sends(producer(topic=name))
    assert [answer.error.error for answer in other.answered()] == [pb.PRODUCER_BUSY]


def test_an_invalid_topic_is_refused() -> None:
    wire = Wire(Bench())
    wire.client_sends(producer(request_id=3, topic="persistent://public/orders"))
    assert wire.sent_up() == []
    (answer,) = wire.answered()
    assert (answer.error.request_id, answer.error.error) == (3, pb.INVALID_TOPIC_NAME)
    assert answer.error.message.startswith("Invalid topic name: ")
    assert wire.closed is None


@pytest.mark.parametrize("field", ["producer_name", "initial_subscription_name"])
def test_names_are_as_long_as_those_of_topics_at_most(field: str) -> None:
    wire = Wire(Bench())
    wire.client_sends(producer(0, 1, **{field: "n" * 1_024}), producer(1, 2, **{field: "n" * 1_025}))
    assert [command.producer.request_id for command in wire.forwarded()] == [1]
    (answer,) = wire.answered()
    assert (answer.error.request_id, answer.error.error) == (2, pb.NOT_ALLOWED_ERROR)
    assert answer.error.message == "a name of 1025 characters, expected at most 1024"


@pytest.mark.parametrize("known", ["given by the client", "chosen by the broker"])
def test_a_reconnecting_producer_counts_once(known: str) -> None:
    bench = Bench(max_producers_per_topic=1)
    name = "mine" if known == "given by the client" else ""
    first = Wire(bench)
    first.client_sends(producer(name=name))
    first.broker_sends(producer_success(name=name or "standalone-0-1"))
    again = Wire(bench, peer="10.0.0.1:5001")
    again.client_sends(producer(name=name or "standalone-0-1"))
    assert len(again.sent_up()) == 1
    assert producers(bench) == 1
    first.close()
    assert producers(bench) == 1
    again.close()
    assert producers(bench) == 0


def test_a_producer_is_released_when_the_client_closes_it() -> None:
    bench = Bench()
    wire = opened(bench, "a", "b")
    assert producers(bench) == 2
    close = frame("close_producer", producer_id=1, request_id=9)
    wire.client_sends(close)
    assert wire.sent_up() == [close]
    assert producers(bench) == 1


def test_a_producer_is_released_when_the_broker_closes_it() -> None:
    bench = Bench()
    wire = opened(bench, "a")
    close = frame("close_producer", producer_id=0, request_id=0)
    wire.broker_sends(close)
    assert wire.sent_down() == [close]
    assert producers(bench) == 0


def test_a_producer_is_released_when_the_broker_refuses_it() -> None:
    bench = Bench()
    wire = Wire(bench)
    wire.client_sends(producer())
    assert producers(bench) == 1
    refused = frame("error", request_id=1, error=pb.AUTHORIZATION_ERROR, message="no")
    wire.broker_sends(refused)
    assert wire.sent_down() == [refused]
    assert producers(bench) == 0


def test_a_producer_is_released_with_its_connection() -> None:
    bench = Bench()
    wire = opened(bench, "a", "b")
    wire.close()
    assert producers(bench) == 0


def test_a_producer_waiting_for_exclusive_access_counts_once() -> None:
    bench = Bench()
    wire = Wire(bench)
    wire.client_sends(producer(producer_access_mode=2))
    wire.broker_sends(producer_success(producer_ready=False))
    assert producers(bench) == 1
    wire.broker_sends(producer_success())
    assert producers(bench) == 1
    assert len(wire.sent_down()) == 2
    wire.client_sends(frame("close_producer", producer_id=0, request_id=2))
    assert producers(bench) == 0


def test_an_id_used_twice_stays_with_its_first_producer() -> None:
    bench = Bench()
    wire = opened(bench, "a")
    again = producer(0, request_id=5, topic="other")
    wire.client_sends(again)
    assert wire.sent_up() == [again]
    assert producers(bench, "persistent://public/default/other") == 0
    wire.broker_sends(frame("error", request_id=5, error=pb.SERVICE_NOT_READY, message="present"))
    assert producers(bench) == 1
    wire.client_sends(send(0))
    assert wire.sent_up() == [send(0)]


def test_two_producers_of_one_name_on_one_connection_count_until_both_are_gone() -> None:
    bench = Bench()
    wire = Wire(bench)
    wire.client_sends(producer(0, 1, name="same"), producer(1, 2, name="same"))
    wire.broker_sends(producer_success(1, "same"))
    wire.broker_sends(frame("error", request_id=2, error=pb.PRODUCER_BUSY, message="connected"))
    assert producers(bench) == 1
    wire.close()
    assert producers(bench) == 0


def test_producers_of_one_connection_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate_pulsar.session.producers.attaching._MAX_PRODUCERS", 2)
    wire = opened(Bench(), "a", "b")
    wire.client_sends(producer(2, request_id=3))
    assert [answer.error.error for answer in wire.answered()] == [pb.NOT_ALLOWED_ERROR]
    assert wire.sent_up() == []


def test_exempt_principals_are_not_counted() -> None:
    bench = Bench(max_producers_per_topic=1)
    wire = Wire(bench)
    wire.session.connection.client.policies_changed(exempt=True)
    wire.client_sends(producer(0, 1), producer(1, 2))
    assert len(wire.sent_up()) == 2
    assert producers(bench) == 0


@pytest.mark.seed("S1-091")
class TestAttachingTooFast:
    """`connection_rate_limit` holds a producer, and refuses it once it was held too long."""

    def test_a_producer_over_the_connection_rate_waits(self) -> None:
        bench = Bench(connection_rate_limit=1)
        wire = Wire(bench)
        wire.client_sends(producer(0, 1), producer(1, 2), send(0))
        assert [command.type for command in wire.forwarded()] == [5, 6]
        wire.wait(1.1)
        assert wire.sent_up() == [producer(1, 2)]
        assert producers(bench) == 2
        assert bench.budget.used == 0

    def test_a_producer_held_for_max_hold_is_refused(self) -> None:
        bench = Bench(connection_rate_limit=0.1)
        wire = Wire(bench, max_hold="2s")
        wire.client_sends(producer(0, 1), producer(1, 2))
        wire.wait(1.9)
        assert wire.answered() == []
        wire.wait(0.2)
        (answer,) = wire.answered()
        assert (answer.error.request_id, answer.error.error) == (2, pb.SERVICE_NOT_READY)
        assert "[sluicegate " in answer.error.message
        assert (producers(bench), bench.budget.used) == (1, 0)

    def test_a_held_producer_that_is_closed_is_never_forwarded(self) -> None:
        bench = Bench(connection_rate_limit=1)
        wire = Wire(bench)
        wire.client_sends(producer(0, 1), producer(1, 2))
        wire.sent_up()
        wire.client_sends(frame("close_producer", producer_id=1, request_id=3))
        assert [answer.success.request_id for answer in wire.answered()] == [3]
        wire.wait(5)
        assert wire.sent_up() == []
        assert (producers(bench), bench.budget.used) == (1, 0)

    def test_a_held_producer_is_dropped_with_its_client(self) -> None:
        bench = Bench(connection_rate_limit=1)
        wire = Wire(bench)
        wire.client_sends(producer(0, 1), producer(1, 2))
        wire.close()
        assert (producers(bench), bench.budget.used) == (0, 0)

    def test_the_id_of_a_held_producer_cannot_be_reused(self) -> None:
        wire = Wire(Bench(connection_rate_limit=1))
        wire.client_sends(producer(0, 1), producer(1, 2), producer(1, 3))
        (answer,) = wire.answered()
        assert (answer.error.request_id, answer.error.error) == (3, pb.SERVICE_NOT_READY)


class TestMessagesOfNobody:
    """A SEND for a producer that is not open."""

    def test_a_send_without_a_producer_ends_the_connection(self) -> None:
        wire = Wire(Bench(), version=JAVA)
        wire.client_sends(send(0, producer_id=3))
        assert wire.sent_up() == []
        assert wire.closed is not None
        assert wire.closed.counter == "send_without_producer"
        assert "producer id 3" in wire.closed.detail

    def test_a_send_may_cross_a_close_by_the_broker(self) -> None:
        wire = opened(Bench(), "a")
        wire.broker_sends(frame("close_producer", producer_id=0, request_id=0))
        wire.client_sends(send(0))
        assert wire.sent_up() == []
        assert wire.closed is None
        assert wire.shared.counts["send_after_close"] == 1

    def test_sends_of_other_producers_pass(self) -> None:
        bench = Bench()
        bad, good = Wire(bench), opened(bench, "a", peer="10.0.0.9:9")
        bad.client_sends(send(0))
        good.client_sends(send(0))
        good.broker_sends(receipt(0))
        assert (good.sent_up(), good.sent_down()) == ([send(0)], [receipt(0)])


def test_a_rewritten_close_names_no_broker() -> None:
    wire = opened(Bench(), "a")
    wire.broker_sends(
        frame(
            "close_producer", producer_id=0, request_id=0, assigned_broker_service_url="pulsar://elsewhere:1"
        )
    )
    (told,) = wire.sent_down()
    assert b"elsewhere" not in told
    assert parse(told).close_producer.producer_id == 0


@pytest.mark.seed("S1-002")
class TestInitialSubscription:
    """A producer may make a subscription, too, which then counts as any other."""

    @staticmethod
    def asked(bench: Bench, known: set[str] | None) -> Wire:
        """A producer that wants one; the admin API has told which there are, if it could."""
        wire = Wire(bench)
        wire.client_sends(producer(request_id=4, initial_subscription_name="dead"))
        (question,) = wire.asked
        assert wire.sent_up() == []
        state = bench.gates.states[TOPIC]
        wire.shared.subscriptions.learned(state, known, wire.now, wire.now)
        wire.front_answers(question)
        return wire

    def test_an_initial_subscription_within_the_limit_is_created(self) -> None:
        bench = Bench(max_subscriptions_per_topic=2)
        wire = self.asked(bench, {"other"})
        assert [command.producer.initial_subscription_name for command in wire.forwarded()] == ["dead"]
        assert bench.gates.states[TOPIC].subscription_count == 2
        assert (producers(bench), bench.budget.used) == (1, 0)

    def test_an_initial_subscription_over_the_limit_is_refused(self) -> None:
        bench = Bench(max_subscriptions_per_topic=1)
        wire = self.asked(bench, {"other"})
        (answer,) = wire.answered()
        assert (answer.error.request_id, answer.error.error) == (4, pb.NOT_ALLOWED_ERROR)
        assert answer.error.message.startswith("Exceed the maximum number of subscriptions of the topic: ")
        assert wire.sent_up() == []
        assert (producers(bench), bench.budget.used) == (0, 0)

    def test_an_existing_initial_subscription_is_not_counted_as_new(self) -> None:
        bench = Bench(max_subscriptions_per_topic=1)
        assert len(self.asked(bench, {"dead"}).sent_up()) == 1

    def test_an_initial_subscription_is_undone_if_the_broker_refuses_the_producer(self) -> None:
        bench = Bench(max_subscriptions_per_topic=1)
        wire = self.asked(bench, set())
        wire.broker_sends(frame("error", request_id=4, error=pb.AUTHORIZATION_ERROR, message="no"))
        assert bench.gates.states[TOPIC].subscription_count == 0

    def test_an_initial_subscription_is_undone_if_the_gateway_refuses_the_producer(self) -> None:
        bench = Bench(max_subscriptions_per_topic=2, max_producers_per_topic=1)
        opened(bench, "a")
        other = Wire(bench, peer="10.0.0.2:1")
        bench.gates.states[TOPIC].learn_subscriptions({"other"})
        other.client_sends(producer(initial_subscription_name="dead"))
        for question in other.asked:
            other.front_answers(question)
        assert [answer.error.error for answer in other.answered()] == [pb.PRODUCER_BUSY]
        assert bench.gates.states[TOPIC].subscription_count == 1
