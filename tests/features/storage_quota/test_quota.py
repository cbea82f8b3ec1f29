"""Reading, judging, and setting the factor, with a clock turned by hand."""

import asyncio
import logging
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import pytest
from tests.features.storage_quota.lab import CONSUMED, Context, limits, usage

from sluicegate.features.storage_quota.quota import StorageQuota, StorageReadError
from sluicegate.features.storage_quota.quota_metrics import COUNTERS, GAUGES, VOLUME_GAUGES
from sluicegate.features.storage_quota.snapshot import BrokerUsage, Snapshot
from sluicegate.features.storage_quota.volumes import State

UPSTREAM = {
    "ThrottleFactor": "throttle_factor",
    "FallbackThrottleFactorApplied": "fallback_applied",
    "LimitViolated": "limit_violated",
    "ActiveBrokers": "active_brokers",
    "ActiveLogDirs": "active_volumes",
    "AvailableBytes": "available_bytes",
    "ConsumedBytes": "consumed_bytes",
    "CachedEntries": "cached_volumes",
    "LogDirEvictions": "volume_evictions",
}
"""What the metrics of Strimzi's plug-in are called here; its tags observingBrokerId, remoteBrokerId and
logDir are the labels broker, broker_id and volume."""
DOCUMENT = Path(__file__).parents[3] / "docs" / "storage-quotas.md"
STORAGE = {"source": "path", "paths": ["/"]}
RAMP = {"storage_hard_consumed_bytes": 90, "storage_soft_consumed_bytes": 80}


class Lab:
    """A quota whose source says what the test says."""

    def __init__(self, context: Context, *, active: bool = False, publish: bool = False, is_on: bool = False):
        self.context = context
        self.used: dict[str, int] = {"b1": 0}
        self.usage: dict[str, BrokerUsage] | None = None
        self.error: Exception | None = None
        self.up: Collection[str] = ("b1",)
        self.published: list[Sequence[Snapshot]] = []
        self.publish_error: Exception | None = None
        self.quota = StorageQuota(
            context.as_context,
            self._read,
            self._active if active else None,
            publish=self._publish if publish else None,
            is_on=is_on,
        )

    async def run(self, **used: int) -> tuple[State, float]:
        """One run, with so many bytes of 100 in use."""
        self.used.update(used)
        await self.quota.run()
        return self.quota.verdict.state, round(self.quota.factor.value, 3)

    async def _read(self) -> Mapping[str, BrokerUsage]:
        if self.error is not None:
            raise self.error
        if self.usage is not None:
            return self.usage
        return {broker: usage(("v", 100, used), at_ms=self.context.now) for broker, used in self.used.items()}

    async def _active(self) -> Collection[str]:
        return self.up

    async def _publish(self, snapshots: Sequence[Snapshot]) -> None:
        if self.publish_error is not None:
            raise self.publish_error
        self.published.append(snapshots)


@pytest.fixture
def context() -> Context:
    return Context(STORAGE, **RAMP)


@pytest.fixture
def lab(context: Context) -> Lab:
    return Lab(context)


@pytest.mark.seed("S4-010", "S4-011", "S4-012", "S4-014")
async def test_a_volume_that_fills_and_is_emptied_again(lab: Lab) -> None:
    seen = [await lab.run(b1=used) for used in (0, 80, 82, 85, 89, 90, 95, 88, 80)]
    assert seen == [
        (State.OPEN, 1.0),
        (State.OPEN, 1.0),
        (State.THROTTLE, 0.8),
        (State.THROTTLE, 0.5),
        (State.THROTTLE, 0.1),
        (State.PAUSE, 0.0),
        (State.PAUSE, 0.0),
        (State.THROTTLE, 0.2),
        (State.OPEN, 1.0),
    ]


@pytest.mark.seed("S4-015")
async def test_until_the_first_reading_nothing_is_known_and_publishing_pauses(lab: Lab) -> None:
    assert (lab.quota.factor.value, lab.quota.factor.known) == (0.0, False)
    assert "storage usage is unknown" in lab.quota.factor.text
    assert await lab.run() == (State.OPEN, 1.0)
    assert (lab.quota.factor.known, lab.quota.factor.text) == (True, "")


async def test_without_a_limit_nothing_is_restricted_whatever_is_not_known() -> None:
    lab = Lab(Context(STORAGE))
    lab.error = StorageReadError("gone")
    assert (lab.quota.factor.value, await lab.run()) == (1.0, (State.OPEN, 1.0))
    # Limits may come with what is read; then missing data matters from the beginning.
    lab = Lab(Context(STORAGE), is_on=True)
    assert lab.quota.factor.value == 0.0
    lab.usage = {"b1": usage(("v", 100, 50), told=limits((CONSUMED, 60), (CONSUMED, 40)))}
    assert await lab.run() == (State.THROTTLE, 0.5)


async def test_a_switch_turns_it_off_and_on_again(lab: Lab, context: Context) -> None:
    assert await lab.run(b1=90) == (State.PAUSE, 0.0)
    context.set(**RAMP, storage_quota=False)
    assert await lab.run() == (State.OPEN, 1.0)
    context.set(**RAMP)
    assert await lab.run() == (State.PAUSE, 0.0)


@pytest.mark.seed("S4-016", "S4-031")
async def test_a_source_that_fails_leaves_the_last_state_until_it_is_stale(
    lab: Lab, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    await lab.run(b1=85)
    assert context.metric("connected") == 1
    lab.error = StorageReadError("no route to host")
    context.advance(300)
    assert await lab.run() == (State.THROTTLE, 0.5)
    assert (context.metric("connected"), context.metric("read_failures")) == (0, 1)
    assert context.metric("lack_of_data") == 0
    context.advance(0.001)
    assert await lab.run() == (State.PAUSE, 0.0)
    assert (context.metric("lack_of_data"), context.metric("fallback_applied")) == (1, 1)
    assert lab.quota.factor.why == "no fresh usage of broker b1 (no route to host)"
    lab.error = None
    assert await lab.run() == (State.THROTTLE, 0.5)
    assert [record.getMessage() for record in caplog.records if "read" in record.getMessage()] == [
        "storage usage cannot be read, the last known usage counts until stale: no route to host"
    ]


@pytest.mark.seed("S4-015", "X-02")
@pytest.mark.parametrize(("on_unknown", "factor"), [("pause", 0.0), ("open", 1.0), ("last", 0.5)])
async def test_what_holds_while_nothing_is_known_is_configured(on_unknown: str, factor: float) -> None:
    context = Context(STORAGE, **RAMP, on_unknown=on_unknown)
    lab = Lab(context)
    await lab.run(b1=85)
    lab.error = StorageReadError("gone")
    context.advance(301)
    await lab.run()
    assert lab.quota.factor.value == pytest.approx(factor)
    assert lab.quota.factor.known is False
    assert context.metric("lack_of_data") == (1 if on_unknown == "pause" else 0)


async def test_a_source_that_hangs_is_given_up(context: Context) -> None:
    async def hang() -> Mapping[str, BrokerUsage]:
        await asyncio.sleep(600)
        raise AssertionError

    context.config.storage = context.config.storage.model_copy(update={"interval": 100})
    quota = StorageQuota(context.as_context, hang)
    await quota.run()  # an answer is waited for at least a second, real time
    assert quota.verdict.why.endswith("(no answer within 1 s)")


@pytest.mark.seed("S4-016", "S4-053")
async def test_a_state_counts_for_at_least_two_intervals(context: Context) -> None:
    context.set(**RAMP, storage_stale_after=1)
    lab = Lab(context)
    await lab.run(b1=0)
    lab.error = StorageReadError("gone")
    context.advance(120)
    assert (await lab.run())[0] is State.OPEN
    context.advance(0.001)
    assert (await lab.run())[0] is State.PAUSE


@pytest.mark.seed("S4-031")
async def test_nodes_that_the_cluster_names_must_be_known(context: Context) -> None:
    lab = Lab(context, active=True)
    lab.up = ("b1", "b2")
    assert await lab.run() == (State.PAUSE, 0.0)
    assert (context.metric("unknown_brokers"), context.metric("active_brokers")) == (1, 2)
    assert await lab.run(b2=0) == (State.OPEN, 1.0)


@pytest.mark.seed("S4-027")
async def test_limits_that_contradict_each_other_leave_those_before_in_force(
    lab: Lab, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    await lab.run(b1=85)
    context.set(storage_hard_consumed_bytes=90, storage_soft_consumed_bytes=95)
    for _ in range(3):
        assert await lab.run() == (State.THROTTLE, 0.5)
    problem = "storage_soft_consumed_bytes 95 would be reached after storage_hard_consumed_bytes 90"
    assert lab.quota.factor.why.endswith(f"; {problem}")
    assert context.metric("settings_refused") == 1
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
        f"storage limits conflict, the previous ones apply: {problem}"
    ]
    context.set(storage_hard_consumed_bytes=95, storage_soft_consumed_bytes=75)
    assert await lab.run() == (State.THROTTLE, 0.5)
    assert "contradict" not in lab.quota.factor.why
    assert problem not in lab.quota.factor.why


@pytest.mark.seed("S4-027")
async def test_at_the_start_the_hard_limit_holds_where_limits_contradict_each_other() -> None:
    lab = Lab(Context(STORAGE, storage_hard_min_free_bytes=30, storage_soft_min_free_bytes=20))
    assert await lab.run(b1=69) == (State.OPEN, 1.0)
    assert lab.context.metric("inverted_volumes") == 1
    assert await lab.run(b1=70) == (State.PAUSE, 0.0)


async def test_limits_change_at_the_next_reading(lab: Lab, context: Context) -> None:
    assert await lab.run(b1=50) == (State.OPEN, 1.0)
    context.set(storage_hard_min_free_ratio=0.4, storage_soft_min_free_ratio=0.6)
    assert await lab.run() == (State.THROTTLE, 0.5)


@pytest.mark.seed("S4-028")
async def test_a_volume_without_capacity_pauses_and_is_logged(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await lab.run(b1=0)
    lab.usage = {"b1": usage(("v", 0, 0))}
    assert await lab.run() == (State.PAUSE, 0.0)
    assert lab.quota.factor.why == "broker b1 volume v: 0 of 0 bytes used is impossible, counts as full"
    assert (
        caplog.records[-1].getMessage()
        == f"storage quota OPEN -> PAUSE, factor 0.000: {lab.quota.factor.why}"
    )


async def test_changes_of_the_state_are_logged_with_volume_node_and_figures(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for used in (0, 85, 86, 95, 0):
        await lab.run(b1=used)
    where = "broker b1 volume v"
    figures = "hard limit at 90, soft limit at 80"
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", f"storage quota PAUSE -> OPEN, factor 1.000: {where}: 0 of 100 bytes used, {figures}"),
        (
            "WARNING",
            f"storage quota OPEN -> THROTTLE, factor 0.500: {where}: 85 of 100 bytes used, {figures}",
        ),
        (
            "WARNING",
            f"storage quota THROTTLE -> PAUSE, factor 0.000: {where}: 95 of 100 bytes used, {figures}",
        ),
        ("INFO", f"storage quota PAUSE -> OPEN, factor 1.000: {where}: 0 of 100 bytes used, {figures}"),
    ]


@pytest.mark.seed("S4-060", "S4-061", "S4-063", "S4-064")
async def test_metrics_by_name(lab: Lab, context: Context) -> None:
    lab.used = {"b1": 85, "b2": 95}
    await lab.run()
    read = {name: context.metric(name) for name in GAUGES}
    assert read == {
        "throttle_factor": 0.0,
        "state": 2.0,
        "lack_of_data": 0.0,
        "connected": 1.0,
        "active_brokers": 2.0,
        "unknown_brokers": 0.0,
        "active_volumes": 2.0,
        "cached_volumes": 2.0,
        "inverted_volumes": 0.0,
    }
    assert {name: context.metric(name, "b1", "v") for name in VOLUME_GAUGES} == {
        "capacity_bytes": 100.0,
        "consumed_bytes": 85.0,
        "available_bytes": 15.0,
        "hard_limit_bytes": 90.0,
        "soft_limit_bytes": 80.0,
    }
    assert context.metric("limit_violated") == 1
    assert set(UPSTREAM.values()) <= {*GAUGES, *VOLUME_GAUGES, *COUNTERS}


@pytest.mark.seed("S4-064")
def test_the_document_names_every_metric_and_what_the_plug_in_calls_it() -> None:
    rows = [line.split("|") for line in DOCUMENT.read_text().splitlines() if line.startswith("| `")]
    told = {name: row[3] for row in rows if len(row) == 5 for name in re.findall(r"`(\w+)`", row[1])}
    names = {*GAUGES, *VOLUME_GAUGES, *(f"{name}_total" for name in COUNTERS)}
    assert names <= told.keys()
    for upstream, name in UPSTREAM.items():
        assert f"`{upstream}`" in told.get(name, "") + told.get(f"{name}_total", "")


@pytest.mark.seed("S4-063")
async def test_usage_has_metrics_without_a_limit_too() -> None:
    lab = Lab(Context(STORAGE))
    await lab.run(b1=85)
    assert lab.context.metric("consumed_bytes", "b1", "v") == 85
    assert lab.context.metric("hard_limit_bytes", "b1", "v") is None
    assert lab.quota.factor.why == "no storage limit is set"


@pytest.mark.seed("S4-064")
async def test_removed_volumes_leave_the_metrics(context: Context) -> None:
    lab = Lab(context, active=True)
    await lab.run()
    lab.usage = {"b1": usage(("w", 100, 7), at_ms=context.now)}
    await lab.run()
    assert context.metric("consumed_bytes", "b1", "v") is None
    assert context.metric("consumed_bytes", "b1", "w") == 7
    assert context.metric("volume_evictions", "b1", "v") == 1


@pytest.mark.seed("S4-030", "S4-062")
async def test_snapshots_are_published_after_each_reading_and_failures_are_counted(context: Context) -> None:
    lab = Lab(context, publish=True)
    await lab.run(b1=85)
    [[snapshot]] = lab.published
    assert (snapshot.broker_id, snapshot.usage.limits) == ("b1", limits((CONSUMED, 90), (CONSUMED, 80)))
    lab.publish_error = OSError("no leader")
    assert await lab.run() == (State.THROTTLE, 0.5)
    assert context.metric("publication_errors") == 1
    lab.error, lab.publish_error = StorageReadError("gone"), None
    await lab.run()
    assert len(lab.published) == 1


@pytest.mark.seed("S4-010", "S4-062")
async def test_a_breach_is_applied_before_anything_is_published(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = Lab(context, publish=True)
    applied: list[float] = []

    async def hang(_: object) -> None:
        applied.append(lab.quota.factor.value)
        await asyncio.Event().wait()

    monkeypatch.setattr("sluicegate.features.storage_quota.quota._LEAST_ANSWER_S", 0.02)
    monkeypatch.setattr("sluicegate.features.storage_quota.quota._ANSWER_S", 0.02)
    monkeypatch.setattr("sluicegate.features.storage_quota.quota._LEAST_PUBLISHING_S", 0.02)
    quota = StorageQuota(context.as_context, lab._read, publish=hang)
    lab.quota = quota
    assert await lab.run(b1=95) == (State.PAUSE, 0.0)
    assert applied == [0.0]
    assert context.metric("publication_errors") == 1  # and it was given up


async def test_what_is_told_only_once_waits_until_the_nodes_are_known(context: Context) -> None:
    lab = Lab(context, active=True)
    reads: list[int] = []

    async def once() -> Mapping[str, BrokerUsage]:
        reads.append(1)
        return {"b1": usage(("v", 100, 0), at_ms=context.now)} if len(reads) == 1 else {}

    async def nodes() -> Collection[str]:
        if lab.error is not None:
            raise lab.error
        return lab.up

    lab.error = OSError("no route")
    lab.quota = StorageQuota(context.as_context, once, nodes)
    assert await lab.run() == (State.PAUSE, 0.0)
    lab.error = None
    assert await lab.run() == (State.OPEN, 1.0)


async def test_a_flood_of_refusals_does_not_flood_the_log(
    lab: Lab, context: Context, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        caplog.clear()
        for number in range(100):
            lab.quota.refuse("malformed", f"record {number}")
        assert len(caplog.records) == 5
        caplog.clear()
        await lab.run(b1=0)
    assert context.metric("snapshots_refused", "malformed") == 200


async def test_what_a_source_refuses_is_counted_by_reason(lab: Lab, context: Context) -> None:
    lab.quota.refuse("malformed", "key '1': not JSON")
    lab.usage = {"b1": usage(("v", 100, 0), at_ms=context.now + 10**7)}
    assert await lab.run() == (State.PAUSE, 0.0)
    assert context.metric("snapshots_refused", "malformed") == 1
    assert context.metric("snapshots_refused", "future") == 1
