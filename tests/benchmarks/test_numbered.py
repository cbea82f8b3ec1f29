"""What became of numbered records."""

from benchmarks.harness.numbered import NumberedProducer, account


def test_each_record_is_accounted_for_once() -> None:
    first = NumberedProducer(0, acked={0: 1.0, 1: 1.1, 2: 1.2}, errored={3, 4}, sent=6)
    second = NumberedProducer(1, acked={0: 1.0}, sent=1)
    # (0, 1) is stored twice, (0, 2) is gone, (0, 3) is there although its sender was told that it failed.
    kept = {(0, 0): 1, (0, 1): 2, (0, 3): 1, (1, 0): 1}
    assert account([first, second], kept) == {
        "acked_records": 4,
        "errored_records": 2,
        "duplicated_records": 1,
        "errored_but_stored": 1,
        "lost_records": 1,
        "unanswered_records": 1,
    }
