"""The factor that follows the volumes of a broker's nodes, for any source of their usage."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, cast

from sluicegate.broker import BrokerContext
from sluicegate.config.models import OnUnknown
from sluicegate.config.storage import StorageConfig
from sluicegate.engine.factors import Factor
from sluicegate.engine.task import Task
from sluicegate.features.storage_quota.quota_fields import POLICY, STALE_AFTER, limits_of, problem_with
from sluicegate.features.storage_quota.quota_metrics import StorageMetrics
from sluicegate.features.storage_quota.shared_usage import Readings, SharedUsage
from sluicegate.features.storage_quota.snapshot import BrokerUsage, Snapshot
from sluicegate.features.storage_quota.usage_tracker import UsageTracker, Verdict
from sluicegate.features.storage_quota.volumes import Limits, State

Read: TypeAlias = Callable[[], Awaitable[Mapping[str, BrokerUsage]]]
"""Reads the usage by node id. May raise any error. Nodes missing in the result keep their last state."""
Active: TypeAlias = Callable[[], Awaitable[Collection[str]]]
"""Reads the ids of the nodes that are up, as reported by the cluster."""
Publish: TypeAlias = Callable[[Sequence[Snapshot]], Awaitable[None]]

_ANSWER_S = 30.0
_LEAST_ANSWER_S = 1.0
_LEAST_PUBLISHING_S = 3.0
"""Longer than the timeout of a reading: the topic may have to be created, and no client waits."""
_LOGGED_REFUSALS = 5
_ADVICE = {
    State.OPEN: "",
    State.THROTTLE: "Storage is running low, so publishing is slowed down. Publish less, or delete data.",
    State.PAUSE: "Storage is full, so publishing is paused. Try again later, or delete data.",
}
_UNKNOWN = "The brokers' storage usage is unknown, so publishing is paused. Try again later."


class StorageReadError(Exception):
    """The usage of a broker's volumes cannot be read; the message gives the reason."""


class StorageQuota:
    """The storage quotas of one broker: reads the usage, evaluates it, and sets the factor.

    :param context: the broker's context; its entry has a `storage:` section.
    :param read: reads the usage of the volumes.
    :param active: reads which nodes are up; None if this is unknown.
    :param publish: publishes the snapshots of all nodes after each reading; its errors are counted.
    :param is_on: True for sources that include limits in their readings, so that missing data matters even
        if the policies set no limit.
    """

    def __init__(
        self,
        context: BrokerContext,
        read: Read,
        active: Active | None = None,
        *,
        publish: Publish | None = None,
        is_on: bool = False,
    ) -> None:
        config: StorageConfig = context.config.storage
        self.factor = Factor(POLICY, self._advice)
        # File systems are those of one host, so that each gateway reads its own.
        of_cluster = config.source != "path"
        shared = SharedUsage(self.readings, self.take_over, context.wall_ms) if of_cluster else None
        self.task = Task(POLICY, lambda: config.interval, self.run, shared)
        self.tracker = UsageTracker(config.brokers)
        self._context = context
        self._config = config
        self._read = read
        self._ask_active = active
        self._publish = publish
        self._is_on = is_on
        self._metrics = StorageMetrics(context.metrics)
        self._active: Collection[str] | None = None if active is None else ()
        self._limits: Limits | None = None
        self._problem = ""
        self._failed = ""
        self._refusals: Counter[str] = Counter()
        # Before the first reading nothing is known, so `on_unknown` applies.
        self.verdict = self._judge(context.wall_ms())
        """The current verdict."""
        self.factor.set(self.verdict.factor, self.verdict.why, known=self.verdict.known)

    async def run(self) -> None:
        """Read once and apply the result. If reading fails, the last state applies until it is stale."""
        self._refusals.clear()
        await self._read_all()
        self._judge_and_apply()
        # Last, because a topic that cannot be written must not delay the effect of a breach.
        if self._publish is not None and not self._failed:
            await self._publish_all(self._publish)

    def readings(self) -> Readings:
        """What is known of all nodes."""
        tracker = self.tracker
        return Readings(tracker.states, tracker.seen_ms, self._active, self._failed)

    def take_over(self, readings: Readings) -> None:
        """Apply what another gateway has read, as if this one had."""
        self._active = readings.active
        self.tracker.take_over(readings.states, readings.seen_ms)
        if readings.failed:
            self._fail(readings.failed)
        else:
            self._succeed()
        self._judge_and_apply()

    def _judge_and_apply(self) -> None:
        now_ms = self._context.wall_ms()
        self.tracker.expire(now_ms, self._stale_ms, self._active, self._config.forget_after)
        verdict = self._judge(now_ms)
        self._note(self.verdict, verdict)
        self.verdict = verdict
        known = self.tracker.states if self._active is None else self._active
        self._metrics.show(self.tracker, verdict, tuple(known))
        why = f"{verdict.why}; {self._problem}" if self._problem else verdict.why
        self._context.apply(lambda: self.factor.set(verdict.factor, why, known=verdict.known))

    def refuse(self, reason: str, text: str) -> None:
        """Count data that was refused, such as a malformed snapshot.

        :param reason: label of the metric, such as `malformed`.
        :param text: message for the log, which shows the first few of a kind at each reading.
        """
        self.tracker.refused[reason] += 1
        self._refusals[reason] += 1
        if self._refusals[reason] <= _LOGGED_REFUSALS:
            self._context.log.warning("storage usage refused (%s): %s", reason, text)

    def snapshots(self) -> list[Snapshot]:
        """The last state of each node, with the gateway's limits if the node reported none."""
        own = self._limits or Limits()
        return [
            Snapshot(broker, usage if usage.limits else replace(usage, limits=own))
            for broker, usage in self.tracker.states.items()
        ]

    # -- reading --------------------------------------------------------------------------------------

    async def _read_all(self) -> None:
        seconds = self._answer_s
        try:
            async with asyncio.timeout(seconds):
                # First, because a source may deliver data only once, which a later error would lose.
                if self._ask_active is not None:
                    self._active = frozenset(await self._ask_active())
                usages = await self._read()
        except TimeoutError:
            self._fail(f"no answer within {seconds:g} s")
        except Exception as error:  # noqa: BLE001 - after any error the last state counts until it is stale
            self._fail(str(error) or type(error).__name__)
        else:
            self._take(usages)

    def _succeed(self) -> None:
        if self._failed:
            self._context.log.info("storage usage can be read again")
        self._failed = ""
        self._metrics.connected(True)

    def _take(self, usages: Mapping[str, BrokerUsage]) -> None:
        self._succeed()
        now_ms = self._context.wall_ms()
        for broker, usage in usages.items():
            self.tracker.offer(broker, usage, now_ms, self._stale_ms)

    def _fail(self, text: str) -> None:
        self._metrics.connected(False)
        self._metrics.count("read_failures")
        if text != self._failed:
            self._context.log.warning(
                "storage usage cannot be read, the last known usage counts until stale: %s", text
            )
        self._failed = text

    async def _publish_all(self, publish: Publish) -> None:
        try:
            async with asyncio.timeout(max(_LEAST_PUBLISHING_S, self._answer_s)):
                await publish(self.snapshots())
        except Exception as error:  # noqa: BLE001 - other gateways then count this broker as unknown
            self._metrics.count("publication_errors")
            self._context.log.warning(
                "storage snapshots cannot be published: %s", str(error) or type(error).__name__
            )

    @property
    def _answer_s(self) -> float:
        return max(_LEAST_ANSWER_S, min(self._config.interval / 1000, _ANSWER_S))

    # -- judging --------------------------------------------------------------------------------------

    @property
    def _stale_ms(self) -> int:
        return max(int(self._context.policies.number(STALE_AFTER)), 2 * self._config.interval)

    def _judge(self, now_ms: int) -> Verdict:
        policies = self._context.policies
        limits = self._current_limits()
        has_reported = any(usage.limits for usage in self.tracker.states.values())
        if policies.values.get(POLICY) is False or not (limits or has_reported or self._is_on):
            why = "turned off" if limits or has_reported else "no storage limit is set"
            return Verdict(State.OPEN, 1.0, why, self.tracker.unlimited())
        return self.tracker.judge(
            limits,
            now_ms,
            stale_ms=self._stale_ms,
            active=self._active,
            on_unknown=cast("OnUnknown", policies.text(f"on_unknown.{POLICY}", "pause")),
            failed=self._failed,
        )

    def _current_limits(self) -> Limits:
        """The effective limits: those of the policies, or the last good ones if these conflict."""
        policies = self._context.policies
        problem = problem_with(policies)
        if problem and problem != self._problem:
            self._metrics.count("settings_refused")
            kept = "the previous ones apply" if self._limits is not None else "only the hard limit applies"
            self._context.log.error("storage limits conflict, %s: %s", kept, problem)
        self._problem = problem
        if not problem or self._limits is None:
            self._limits = limits_of(policies)
        return self._limits

    def _note(self, before: Verdict, after: Verdict) -> None:
        if after.lack_of_data and not before.lack_of_data:
            self._metrics.count("fallback_applied")
        for judged in after.volumes:
            if judged.state is State.PAUSE:
                self._metrics.count("limit_violated")
        if after.state is not before.state or after.known != before.known:
            log = self._context.log.warning if after.state > before.state else self._context.log.info
            log(
                "storage quota %s -> %s, factor %.3f: %s",
                before.state.name,
                after.state.name,
                after.factor,
                after.why,
            )

    def _advice(self) -> str:
        return _UNKNOWN if self.verdict.lack_of_data else _ADVICE[self.verdict.state]
