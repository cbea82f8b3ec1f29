"""The requests that are held now, as people see them."""

from tests.runtime.sampled import WAITING, Sampled

from sluicegate.runtime.held_samples import SHOWN, held_now


def test_each_held_request_with_its_client_and_the_policy_that_holds_it() -> None:
    broker = Sampled({"max_publish_rate": 10, **WAITING})
    broker.publish(10)
    broker.now_ns += 5_000_000
    broker.publish(7, principal="ann", client="app@10.0.0.1:7")
    assert held_now(broker.host.gates.broker.held, lambda now_ns: now_ns // 1_000_000) == [
        {
            "client": "app",
            "principal": "ann",
            "address": "10.0.0.1:7",
            "topic": "t",
            "operation": "publish",
            "policy": "max_publish_rate",
            "since_ms": 1_000_005,
        }
    ]


def test_at_most_100_are_shown_those_first_that_have_waited_longest() -> None:
    broker = Sampled({"max_publish_rate": 10, **WAITING})
    broker.publish(10)
    for number in range(SHOWN + 50):
        broker.publish(1, client=f"c{number}@h:1")
    found = held_now(broker.host.gates.broker.held, lambda now_ns: 0)
    assert [held["client"] for held in found] == [f"c{number}" for number in range(SHOWN)]
