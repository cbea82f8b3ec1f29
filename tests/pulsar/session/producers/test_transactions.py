"""Ends of transactions that wait behind messages: what they cost and what they count."""

from tests.pulsar.session.messages import frame, producer, producer_success, send
from tests.pulsar.session.wire import Bench, Wire

from sluicegate_pulsar.session.producer_state.publish_memory import FRAME_OVERHEAD
from sluicegate_pulsar.session.producers.transactions import Transactions


class Counted(tuple[int, int]):
    """A transaction's id that counts how often one is compared."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Counted.compared += 1
        return super().__eq__(other)

    __hash__ = tuple.__hash__


def test_a_message_looks_at_no_ends_of_other_transactions() -> None:
    """A client may send them by the ten thousand, and 250 messages proceed in one turn."""
    txns = Transactions()
    for number in range(100):
        txns.waits(Counted((1, number)))
        txns.keep(Counted((1, number)), b"%d" % number)
    Counted.compared = 0
    for number in range(100):
        assert txns.left(Counted((1, number))) == [b"%d" % number]
    assert Counted.compared <= 1_000
    assert not txns


def test_ends_that_wait_count_with_the_memory_that_they_take() -> None:
    bench = Bench(max_publish_rate=1)
    wire = Wire(bench)
    wire.client_sends(producer())
    wire.broker_sends(producer_success())
    txn = {"txnid_most_bits": 1, "txnid_least_bits": 7}
    wire.client_sends(send(0), send(1, command=txn))
    before = bench.budget.used
    ends = [frame("end_txn", request_id=number, **txn) for number in range(10)]
    wire.client_sends(*ends)
    assert bench.budget.used - before >= 10 * FRAME_OVERHEAD
    wire.sent_up()
    wire.wait(1)
    assert wire.sent_up()[1:] == ends
    assert bench.budget.used == 0
