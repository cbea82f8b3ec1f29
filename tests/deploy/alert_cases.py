"""When each alert of deploy/prometheus/rules.yml fires, and when it does not."""

from collections.abc import Mapping
from dataclasses import dataclass, field

ADAPTIVE = "pulsar_broker_adaptive_throttle_"
HOUR, DAY = 60, 1440


def steady(value: float, minutes: int = 30) -> str:
    """A series that stays as it is, in promtool's notation, with a sample a minute."""
    return f"{value}+0x{minutes}"


def rising(by: float, minutes: int = 30, *, start: float = 0) -> str:
    """A counter that rises by so much a minute."""
    return f"{start}+{by}x{minutes}"


@dataclass(frozen=True, slots=True)
class Case:
    """One alert."""

    alert: str
    summary: str
    fires: Mapping[str, str]
    """Values by metric; labels of a single series may follow its name."""
    quiet: Mapping[str, str]
    """The same for a gateway that has no such trouble."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Of all series besides `broker`, and so of the alert."""
    severity: str = "warning"
    at: str = "16m"
    """When the alert must fire."""
    without: frozenset[str] = frozenset()
    """Labels that the alert does not have."""
    has_broker: bool = True


_VIOLATIONS = "policy_violation_total"
_COUNTED = 'sluicegate_limit_used{topic="t",policy="max_producers_per_topic"}'
_MAXIMUM = 'sluicegate_limit{topic="t",policy="max_producers_per_topic",level="topic"}'
_USED = "sluicegate_principal_limit_used"
_QUOTA = "sluicegate_principal_limit"
CASES = (
    Case(
        "SluicegateRateNearLimit",
        "t on b uses 80 % of its publish rate",
        {"rate_limiter_utilization": steady(80)},
        {"rate_limiter_utilization": steady(79.9)},
        {"topic_name": "t", "rate_type": "publish", "window": "10s"},
    ),
    Case(
        "SluicegateQuotaNearLimit",
        "principal ann uses 90 % of its principal_publish_quota on b",
        {_USED: steady(900), _QUOTA: steady(1000)},
        {_USED: steady(700), _QUOTA: steady(1000)},
        {"principal": "ann", "policy": "principal_publish_quota"},
    ),
    Case(
        "SluicegateCountNearMaximum",
        "t on b is at 90 % of max_producers_per_topic",
        {_COUNTED: steady(9), _MAXIMUM: steady(10)},
        {_COUNTED: steady(8), _MAXIMUM: steady(10)},
        {"topic": "t", "policy": "max_producers_per_topic"},
    ),
    Case(
        "SluicegateHolding",
        "requests on t of b are held all the time",
        {"sluicegate_hold_duration_seconds_sum": rising(40)},
        {"sluicegate_hold_duration_seconds_sum": rising(10)},
        {"topic_name": "t", "operation": "publish"},
        at="20m",
        without=frozenset({"operation"}),
    ),
    Case(
        "SluicegateRefusalsRising",
        "max_message_size on b refuses 1.0 operations a second, many more than before",
        {_VIOLATIONS: f"{rising(6, 90)} {rising(60, 30, start=600)}"},
        {_VIOLATIONS: rising(60, 120)},
        {"topic_name": "t", "policy_type": "max_message_size", "violation_reason": "invalid"},
        at="107m",
        without=frozenset({"topic_name"}),
    ),
    Case(
        "SluicegateDown",
        "the gateway at gate:9095 does not answer",
        {"up": steady(0)},
        {"up": steady(1)},
        {"job": "sluicegate", "instance": "gate:9095"},
        "critical",
        has_broker=False,
    ),
    Case(
        "SluicegateWorkerDown",
        "the worker of b does not serve",
        {"sluicegate_worker_up": steady(0)},
        {"sluicegate_worker_up": steady(1)},
        severity="critical",
    ),
    Case(
        "SluicegateWorkerRestarts",
        "the worker of b was started again 10 times in 10 minutes",
        {"sluicegate_worker_restarts_total": rising(1)},
        {"sluicegate_worker_restarts_total": steady(1)},
    ),
    Case(
        "SluicegateBrokerUnreachable",
        "no address of b answers",
        {"sluicegate_broker_up": steady(0)},
        {"sluicegate_broker_up": steady(1)},
        severity="critical",
    ),
    Case(
        "SluicegateReloadFailed",
        "the file or the store cannot be read; the last good policies are in force",
        {"sluicegate_config_last_reload_successful": steady(0)},
        {"sluicegate_config_last_reload_successful": steady(1)},
        has_broker=False,
    ),
    Case(
        "SluicegateStoreStale",
        "the policy store has not answered for 2m 0s",
        {"sluicegate_store_age_seconds": steady(120)},
        {"sluicegate_store_age_seconds": steady(0.2)},
        has_broker=False,
    ),
    Case(
        "SluicegateCertificateReloadFailed",
        "the new TLS files of tls.client of b cannot be used",
        {"sluicegate_certificate_last_reload_successful": steady(0)},
        {"sluicegate_certificate_last_reload_successful": steady(1)},
        {"section": "tls.client"},
    ),
    Case(
        "SluicegateCertificateExpires",
        "/etc/gate/tls.crt (tls.client.cert of b) expires in 5d 23h 44m 0s",
        {"sluicegate_certificate_not_after_timestamp_seconds": steady(6 * 86400)},
        {"sluicegate_certificate_not_after_timestamp_seconds": steady(8 * 86400)},
        {"role": "tls.client.cert", "file": "/etc/gate/tls.crt"},
    ),
    Case(
        "SluicegateEventLoopLag",
        "the worker of b is 300ms late all the time",
        {"sluicegate_event_loop_lag_seconds": steady(0.3)},
        {"sluicegate_event_loop_lag_seconds": "0.3 0.001 0.3 0.001 0.3 0.001 0.3 0.001 " * 4},
    ),
    Case(
        "SluicegateEventLoopHeld",
        "acme.checks holds the event loop of b for 10% of the time",
        {"sluicegate_event_loop_held_seconds_total": rising(6)},
        {"sluicegate_event_loop_held_seconds_total": rising(1)},
        {"module": "acme.checks"},
    ),
    Case(
        "SluicegateMemoryShort",
        "the worker of b is short of memory (level 1) and turns clients away",
        {"sluicegate_overload_level": steady(1)},
        {"sluicegate_overload_level": steady(0)},
        severity="critical",
    ),
    Case(
        "SluicegateDecisionLogDropping",
        "the decision log of b loses 1.0 decisions a second",
        {"sluicegate_decision_log_dropped_total": rising(60)},
        {"sluicegate_decision_log_dropped_total": steady(7)},
    ),
    Case(
        "SluicegateRolloutFellBack",
        "a policy exceeded the budget of its roll-out and is only observed again",
        {"sluicegate_rollout_fallbacks_total": "0x14 1 1 1 1"},
        {"sluicegate_rollout_fallbacks_total": steady(1)},
        has_broker=False,
    ),
    Case(
        "SluicegatePluginFaults",
        "plugin mine raises on b",
        {"sluicegate_plugin_faults_total": "_x14 1 1 1 1"},
        {"sluicegate_plugin_faults_total": steady(1)},
        {"plugin": "mine"},
    ),
    Case(
        "SluicegateMemoryPressure",
        "the memory pressure of b is 0.60 of 1",
        {f"{ADAPTIVE}memory_pressure": steady(0.6)},
        {f"{ADAPTIVE}memory_pressure": steady(0.4)},
    ),
    Case(
        "SluicegateTopicsThrottled",
        "3 topics of b are throttled adaptively",
        {f"{ADAPTIVE}active_topic_count": steady(3)},
        {f"{ADAPTIVE}active_topic_count": steady(0)},
    ),
    Case(
        "SluicegateThrottlingFlaps",
        "adaptive throttling on b began 30 times in 10 minutes",
        {f"{ADAPTIVE}activation_count_total": rising(3)},
        {f"{ADAPTIVE}activation_count_total": rising(1)},
    ),
    Case(
        "SluicegateThrottlingStopped",
        "adaptive throttling on b has not evaluated for a minute",
        {f"{ADAPTIVE}controller_last_evaluation_timestamp": steady(600_000)},
        {f"{ADAPTIVE}controller_last_evaluation_timestamp": rising(60_000)},
        severity="critical",
    ),
    Case(
        "SluicegateThrottlingSlow",
        "an evaluation of adaptive throttling on b takes longer than its interval",
        {f"{ADAPTIVE}controller_evaluation_duration": steady(1500)},
        {f"{ADAPTIVE}controller_evaluation_duration": "1500 3 1500 3 1500 3 " * 6},
    ),
    Case(
        "SluicegateThrottlingFails",
        "evaluations of adaptive throttling on b fail",
        {f"{ADAPTIVE}controller_evaluation_failure_count_total": rising(1)},
        {f"{ADAPTIVE}controller_evaluation_failure_count_total": steady(1)},
    ),
)
