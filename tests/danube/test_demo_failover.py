"""How the demo judges a failover: by what clients saw, once the topic really had another owner."""

import pytest
from tests.demo.scenes import BEGAN_S, log, row

from sluicegate.demo.scene import Seen, Verdict
from sluicegate_danube.demo.failover import failover

_SCENE = failover("/default/failover")
_KILLED = 10.0


def seen(*, met: bool = True, owned: bool = True) -> Seen:
    """What clients saw."""
    return Seen(met, "seen", "", {"owned": owned, "at": BEGAN_S + _KILLED})


@pytest.mark.parametrize(
    ("saw", "moved_at", "verdict"),
    [
        (seen(), 11.0, Verdict.RIGHT),
        (seen(met=False), 11.0, Verdict.DIFFERENT),
        (seen(), 9.0, Verdict.DIFFERENT),
        (seen(owned=False), 9.0, Verdict.UNSATURATED),
        (seen(owned=False, met=False), 9.0, Verdict.UNSATURATED),
    ],
)
def test_verdicts(saw: Seen, moved_at: float, verdict: Verdict) -> None:
    moved = row(moved_at, operation="owner_changed")
    assert _SCENE.judge(saw, log(moved)).verdict is verdict
