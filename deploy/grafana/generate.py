"""Write the dashboards beside this file: `python deploy/grafana/generate.py`.

The boards are lists of panels; everything else that Grafana wants of each panel is the same for all.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
B = 'broker=~"$broker"'
T = f'{B},topic_name="$topic"'
L = f'{B},topic="$topic"'
REFUSED = 'violation_reason=~"limit_reached|invalid|precondition"'
_WIDTH, _HEIGHT = 24, 8


@dataclass(frozen=True)
class Panel:
    """One panel; each query is an expression and its legend."""

    title: str
    unit: str
    queries: Sequence[tuple[str, str]]
    text: str = ""
    kind: str = "timeseries"
    width: int = 8

    def json(self, number: int, x: int, y: int) -> dict[str, Any]:
        """The panel as Grafana has it."""
        is_now = self.kind in ("stat", "table")
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.text,
            "datasource": SOURCE,
            "gridPos": {"h": 4 if self.kind == "stat" else _HEIGHT, "w": self.width, "x": x, "y": y},
            "fieldConfig": {"defaults": {"unit": self.unit, "min": 0}, "overrides": []},
            "options": {"legend": {"displayMode": "list", "placement": "bottom", "showLegend": True}}
            if self.kind == "timeseries"
            else {},
            "targets": [
                {
                    "refId": chr(ord("A") + place),
                    "datasource": SOURCE,
                    "expr": expression,
                    "legendFormat": legend,
                    "instant": is_now,
                    "range": not is_now,
                    "format": "table" if self.kind == "table" else "time_series",
                }
                for place, (expression, legend) in enumerate(self.queries)
            ],
        }


def per_s(metric: str, labels: str, *by: str) -> str:
    """A counter's rate, summed up by labels."""
    return f"sum by ({', '.join(by)}) (rate({metric}{{{labels}}}[$__rate_interval]))"


def quantile(share: float, metric: str, labels: str, *by: str) -> str:
    """A quantile of a histogram."""
    return f"histogram_quantile({share}, {per_s(f'{metric}_bucket', labels, 'le', *by)})"


def used_percent(labels: str) -> str:
    """Percent of the limits in use."""
    return f"100 * sluicegate_limit_used{{{labels}}} / ignoring(level) sluicegate_limit{{{labels}}}"


def stat(title: str, unit: str, expression: str) -> Panel:
    """One number."""
    return Panel(title, unit, [(expression, "")], kind="stat", width=4)


_COUNTS = 'policy=~"max_(producers|consumers|subscriptions|unacked)_.+"'
OVERVIEW = (
    stat("Brokers reachable", "none", f"sum(sluicegate_broker_up{{{B}}})"),
    stat("Clients", "none", f"sum(sluicegate_connections{{{B}}})"),
    stat("Messages a second", "mps", f"sum(rate(sluicegate_messages_total{{{B}}}[$__rate_interval]))"),
    stat("Refusals a second", "ops", f"sum(rate(policy_violation_total{{{B},{REFUSED}}}[$__rate_interval]))"),
    stat("Held now", "none", f"sum(sluicegate_held{{{B}}})"),
    stat("Rate used most", "percent", f'max(rate_limiter_utilization{{{B},window="10s"}})'),
    Panel(
        "Messages",
        "mps",
        [(per_s("sluicegate_messages_total", B, "broker", "direction"), "{{broker}} {{direction}}")],
    ),
    Panel(
        "Bytes",
        "Bps",
        [(per_s("sluicegate_message_bytes_total", B, "broker", "direction"), "{{broker}} {{direction}}")],
    ),
    Panel(
        "Operations by decision", "ops", [(per_s("sluicegate_operations_total", B, "action"), "{{action}}")]
    ),
    Panel(
        "Refused or dropped, by policy",
        "ops",
        [(per_s("policy_violation_total", f"{B},{REFUSED}", "policy_type"), "{{policy_type}}")],
    ),
    Panel(
        "Throttled, by kind of rate",
        "ops",
        [(per_s("rate_limit_throttle_total", B, "rate_type"), "{{rate_type}}")],
    ),
    Panel("Requests held now", "none", [(f"sum by (broker) (sluicegate_held{{{B}}})", "{{broker}}")]),
    Panel(
        "Rates used most",
        "percent",
        [(f'topk(10, rate_limiter_utilization{{{B},window="10s"}})', "{{topic_name}} {{rate_type}}")],
        "Of the limit in force, in the last 10 seconds.",
    ),
    Panel(
        "Counts nearest their maximum",
        "percent",
        [(f"topk(10, {used_percent(f'{B},{_COUNTS}')})", "{{topic}} {{policy}}")],
    ),
    Panel(
        "Hold time, 99 %",
        "s",
        [(quantile(0.99, "sluicegate_hold_duration_seconds", B, "broker"), "{{broker}}")],
    ),
    Panel(
        "Busiest topics",
        "mps",
        [(f"topk(10, {per_s('sluicegate_messages_total', B, 'topic_name')})", "{{topic_name}}")],
    ),
    Panel(
        "Topics held most",
        "none",
        [(f"topk(10, {per_s('sluicegate_hold_duration_seconds_sum', B, 'topic_name')})", "{{topic_name}}")],
        "Requests held at any time, on average.",
    ),
    Panel(
        "What factors leave of the quotas",
        "percentunit",
        [(f"sluicegate_quota_factor{{{B}}}", "{{broker}} {{factor}}")],
    ),
)
TOPIC = (
    Panel(
        "Messages",
        "mps",
        [
            (per_s("sluicegate_messages_total", T, "direction"), "{{direction}}"),
            (f'sluicegate_limit{{{L},policy=~"max_(publish|dispatch)_rate"}}', "{{policy}}"),
        ],
        "With the limits that are set.",
    ),
    Panel(
        "Bytes",
        "Bps",
        [
            (per_s("sluicegate_message_bytes_total", T, "direction"), "{{direction}}"),
            (f'sluicegate_limit{{{L},policy=~"max_(publish|dispatch)_rate_bytes"}}', "{{policy}}"),
        ],
        "With the limits that are set.",
    ),
    Panel(
        "Rates in use",
        "percent",
        [(f"rate_limiter_utilization{{{T}}}", "{{rate_type}} {{window}}")],
        "Of the limit in force, with what factors leave of it.",
    ),
    Panel("Counts in use", "percent", [(used_percent(f"{L},{_COUNTS}"), "{{policy}}")]),
    Panel(
        "Producers and consumers",
        "none",
        [(f"producer_count{{{T}}}", "producers"), (f"sum(consumer_count{{{T}}})", "consumers")],
    ),
    Panel("Consumers by subscription", "none", [(f"consumer_count{{{T}}}", "{{subscription_name}}")]),
    Panel(
        "Refused, held or observed",
        "ops",
        [
            (
                per_s("policy_violation_total", T, "policy_type", "violation_reason"),
                "{{policy_type}} {{violation_reason}}",
            )
        ],
    ),
    Panel("Requests held now", "none", [(f"sluicegate_held{{{L}}}", "held")]),
    Panel(
        "Hold time",
        "s",
        [
            (
                quantile(share, "sluicegate_hold_duration_seconds", T, "operation"),
                f"{{{{operation}}}} {share:.0%}",
            )
            for share in (0.5, 0.99)
        ],
    ),
    Panel(
        "Message size",
        "bytes",
        [(quantile(share, "message_size_bytes", T), f"{share:.0%}") for share in (0.5, 0.99)],
        "Of messages that were published alone.",
    ),
    Panel(
        "Batch size",
        "bytes",
        [(quantile(share, "sluicegate_batch_size_bytes", T), f"{share:.0%}") for share in (0.5, 0.99)],
    ),
    Panel(
        "Limits",
        "none",
        [(f"sluicegate_limit{{{L}}}", "")],
        "In messages or bytes a second, bytes, seconds, or a count.",
        "table",
    ),
)


def _clients(kind: str, many: str) -> Iterator[Panel]:
    """The panels of principals or of client ids."""
    legend = f"{{{{{kind}}}}}"
    for title, unit, metric in (
        (f"Published by {many}", "mps", f"sluicegate_{kind}_messages_total"),
        (f"Published by {many}, bytes", "Bps", f"sluicegate_{kind}_message_bytes_total"),
    ):
        rates = per_s(metric, f'{B},direction="publish"', kind)
        yield Panel(title, unit, [(f"topk(10, {rates})", legend)])
    rates = per_s(f"sluicegate_{kind}_messages_total", f'{B},direction="dispatch"', kind)
    yield Panel(f"Delivered to {many}", "mps", [(f"topk(10, {rates})", legend)])
    for title, metric in (("Refused", "refusals"), ("Held", "delays")):
        rates = per_s(f"sluicegate_{kind}_{metric}_total", B, kind)
        yield Panel(f"{title} operations of {many}", "ops", [(f"topk(10, {rates})", legend)])
    yield Panel(
        f"Requests of {many} held now",
        "none",
        [(f"topk(10, sum by ({kind}) (sluicegate_{kind}_held{{{B}}}))", legend)],
    )


TENANTS = (
    Panel(
        "Quotas in use",
        "percent",
        [
            (
                f"topk(10, 100 * sluicegate_principal_limit_used{{{B}}} / sluicegate_principal_limit{{{B}}})",
                "{{principal}} {{policy}}",
            )
        ],
        width=12,
    ),
    Panel(
        "Quotas",
        "none",
        [(f"sluicegate_principal_limit{{{B}}}", "")],
        "In messages or bytes a second.",
        "table",
        width=12,
    ),
    *_clients("principal", "principals"),
    *_clients("client", "client ids"),
)
HEALTH = (
    stat("Workers", "none", f"sum(sluicegate_worker_up{{{B}}})"),
    stat("Brokers reachable", "none", f"sum(sluicegate_broker_up{{{B}}})"),
    stat("Policies last read", "none", "min(sluicegate_config_last_reload_successful)"),
    stat("TLS files last read", "none", f"min(sluicegate_certificate_last_reload_successful{{{B}}})"),
    stat(
        "First certificate expires in",
        "s",
        f"min(sluicegate_certificate_not_after_timestamp_seconds{{{B}}}) - time()",
    ),
    stat("Age of the policy store", "s", "max(sluicegate_store_age_seconds)"),
    Panel("Event loop lag", "s", [(f"sluicegate_event_loop_lag_seconds{{{B}}}", "{{broker}}")]),
    Panel(
        "Event loop held, by module",
        "percentunit",
        [(per_s("sluicegate_event_loop_held_seconds_total", B, "module"), "{{module}}")],
    ),
    Panel(
        "CPU",
        "percentunit",
        [("rate(process_cpu_seconds_total[$__rate_interval])", "{{process}} {{broker}}")],
    ),
    Panel(
        "Resident memory",
        "bytes",
        [
            ("process_resident_memory_bytes", "{{process}} {{broker}}"),
            (f"sluicegate_overload_memory_limit_bytes{{{B}}}", "limit {{broker}}"),
        ],
    ),
    Panel(
        "Kept for clients",
        "bytes",
        [
            (f"sluicegate_buffered_bytes{{{B}}}", "{{broker}}"),
            (f"sluicegate_buffer_budget_bytes{{{B}}}", "budget {{broker}}"),
        ],
    ),
    Panel("File descriptors", "none", [("process_open_fds", "{{process}} {{broker}}")]),
    Panel("Clients", "none", [(f"sluicegate_connections{{{B}}}", "{{broker}}")]),
    Panel(
        "Clients accepted and turned away",
        "cps",
        [
            (per_s("sluicegate_connections_accepted_total", B, "broker"), "accepted {{broker}}"),
            (per_s("sluicegate_connections_refused_total", B, "broker"), "max_connections {{broker}}"),
            (per_s("sluicegate_connections_refused_address_total", B, "broker"), "address_share {{broker}}"),
            (per_s("sluicegate_connections_refused_overload_total", B, "broker"), "memory {{broker}}"),
        ],
    ),
    Panel(
        "Connections closed, by reason",
        "cps",
        [(per_s("sluicegate_session_closes_total", B, "reason"), "{{reason}}")],
    ),
    Panel(
        "Decision log",
        "ops",
        [
            (per_s("sluicegate_decision_log_emitted_total", B, "broker"), "written {{broker}}"),
            (per_s("sluicegate_decision_log_dropped_total", B, "broker"), "dropped {{broker}}"),
        ],
    ),
    Panel("Decisions queued", "none", [(f"sluicegate_decision_log_queued{{{B}}}", "{{broker}}")]),
    Panel(
        "Plugins",
        "ops",
        [
            (per_s("sluicegate_plugin_faults_total", B, "plugin"), "faults {{plugin}}"),
            (
                per_s("sluicegate_plugin_slow_calls_total", B, "plugin", "policy"),
                "slow calls {{plugin}} {{policy}}",
            ),
        ],
    ),
    Panel(
        "Gates and topics",
        "none",
        [
            (f"sluicegate_gates{{{B}}}", "gates {{broker}}"),
            (f"sluicegate_topics{{{B}}}", "topics {{broker}}"),
        ],
    ),
    Panel(
        "Policy version",
        "none",
        [(f"sluicegate_policy_version{{{B}}}", "{{broker}}"), ("sluicegate_config_version", "last read")],
    ),
    Panel(
        "Worker restarts",
        "none",
        [(f"increase(sluicegate_worker_restarts_total{{{B}}}[$__rate_interval])", "{{broker}}")],
    ),
)


def _variable(name: str, query: str, *, is_one: bool) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": SOURCE,
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": not is_one,
        "includeAll": not is_one,
        "allValue": None if is_one else ".*",
    }


def dashboard(name: str, title: str, panels: Sequence[Panel]) -> dict[str, Any]:
    """A dashboard, with its panels placed from left to right."""
    placed, x, y, height = [], 0, 0, 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > _WIDTH:
            x, y, height = 0, y + height, 0
        made = panel.json(number, x, y)
        placed.append(made)
        x, height = x + panel.width, max(height, made["gridPos"]["h"])
    variables = [
        {"name": "datasource", "type": "datasource", "query": "prometheus"},
        _variable("broker", "label_values(sluicegate_broker_up, broker)", is_one=False),
    ]
    if name == "topic":
        query = 'label_values(sluicegate_operations_total{broker=~"$broker"}, topic_name)'
        variables.append(_variable("topic", query, is_one=True))
    return {
        "uid": f"sluicegate-{name}",
        "title": f"Sluicegate: {title}",
        "tags": ["sluicegate"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": variables},
        "panels": placed,
    }


BOARDS = {
    "overview": ("overview", OVERVIEW),
    "topic": ("one topic", TOPIC),
    "tenants": ("principals and clients", TENANTS),
    "health": ("gateway health", HEALTH),
}


def rendered(name: str) -> str:
    """The text of a dashboard's file."""
    return json.dumps(dashboard(name, *BOARDS[name]), indent=1) + "\n"


if __name__ == "__main__":
    for board in BOARDS:
        (Path(__file__).parent / f"{board}.json").write_text(rendered(board))
