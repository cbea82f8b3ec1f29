"""What a play makes of the speed of the machine."""

import pytest

from sluicegate.demo.first_minute.play import WORKERS, Calibrated
from sluicegate.demo.first_minute.traffic import NOISY_SIZE


@pytest.mark.parametrize(
    ("alone", "wait_s", "limit"), [(0.003, 1.5, 3), (0.25, 2.0, 2), (0.5, 4.0, 1), (60.0, 8.0, 1)]
)
def test_a_slower_machine_gets_a_slower_disk_and_a_lower_limit(
    alone: float, wait_s: float, limit: int
) -> None:
    found = Calibrated.by([alone] * 60)
    assert (found.wait_s, found.limit) == (wait_s, limit)
    assert found.bytes_per_second * wait_s == pytest.approx(WORKERS * NOISY_SIZE)


def test_a_single_slow_message_does_not_count() -> None:
    assert Calibrated.by([0.003] * 59 + [5.0]).wait_s == 1.5
