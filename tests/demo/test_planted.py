"""A demo that finds a policy broken exits with 1: faults are planted in the product, and it finds each."""

import asyncio
import os
from pathlib import Path

import pytest
from tests.demo.running import Ended, demo, planted

from sluicegate.demo.backend import demo_of
from sluicegate.demo.runner import run_demo
from sluicegate.demo.scene import Verdict

pytestmark = pytest.mark.slow

GENEROUS = """
from sluicegate.engine import bucket

right = bucket._rate_and_capacity
bucket._rate_and_capacity = lambda rate, burst_s: tuple(1.1 * value for value in right(rate, burst_s))
"""

OFF_BY_ONE = """
from sluicegate.policies.size import _SizeCheck

right = _SizeCheck.check
_SizeCheck.check = lambda self, op, now: None if op.largest == self.limit + 1 else right(self, op, now)
"""

EARLY = """
from sluicegate_kafka.session.fetching import fetching

right = fetching.due_ms
fetching.due_ms = lambda *of_message: right(*of_message) - 5
"""

KEPT = """
from sluicegate.engine.attachments import Attachments

Attachments.detach = lambda self, key, ref: False
"""


def assert_found(done: Ended, scene: str, words: str) -> None:
    assert done.code == 1, done.printed + done.errors
    assert done.verdict(scene) == "DIFFERENT"
    assert words in done.about(scene)
    assert done.printed.splitlines()[-1].startswith("1 of 1 observations differ from the policy; ")


def test_a_bucket_that_admits_a_tenth_more(tmp_path: Path) -> None:
    done = demo(tmp_path / "kept", "kafka", "publish-rate", plant=planted(tmp_path / "plant", GENEROUS))
    assert_found(done, "publish-rate", "messages more than the limit permits")


def test_a_size_check_that_is_off_by_one(tmp_path: Path) -> None:
    done = demo(tmp_path / "kept", "kafka", "message-size", plant=planted(tmp_path / "plant", OFF_BY_ONE))
    assert_found(done, "message-size", "4 KiB accepted, 4 KiB + 1 B accepted")


def test_a_delay_that_ends_5_ms_early(tmp_path: Path) -> None:
    plant = planted(tmp_path / "plant", EARLY)
    for number in range(5):
        done = demo(tmp_path / str(number), "kafka", "fixed-delay", plant=plant)
        if done.code:
            break
        # This machine is so busy that it let go each of the messages too late for the fault to show.
        assert done.verdict("fixed-delay") == "ok"
    assert_found(done, "fixed-delay", "ms too early")


async def test_a_place_that_is_never_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = planted(tmp_path / "plant", KEPT)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(plant), os.environ.get("PYTHONPATH", ""))))
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")
    kafka = await asyncio.to_thread(demo_of, "kafka")
    outcome = await run_demo(
        {"kafka": kafka}, tmp_path, lambda line: None, frozenset(("producers",)), patience_s=10.0
    )
    [played] = outcome.played
    assert played.observation.verdict is Verdict.DIFFERENT
    assert (
        "2 of 3 were admitted; after one of them had detached another was refused" in played.observation.text
    )
