"""The figures that the project holds itself to, each computed within one run."""

import operator
from dataclasses import dataclass

from benchmarks.harness.names import (
    ARROW,
    DIRECT,
    DUCKDB,
    ENGINE,
    HAPROXY,
    KROXYLICIOUS,
    LOCAL,
    LOG_FULL,
    LOG_REAL,
    LOG_SUMMARY,
    METADATA_ETCD,
    METADATA_MEMORY,
    NGINX,
    ONE_WORKER,
    PULSAR_PROXY,
    SLUICEGATE,
    SLUICEGATE_DELAY,
    SLUICEGATE_DISPATCH,
    SPARK,
    STRIMZI,
)
from benchmarks.harness.samples import Results, mid


@dataclass(frozen=True, slots=True)
class Figure:
    """A bound on one value, as a rule on its median, alone or set against another arm of the same round."""

    text: str
    scenario: str
    value: str
    bound: float
    unit: str
    arm: str = SLUICEGATE
    against: str = ""
    """The other arm; empty for the value alone."""
    difference: bool = False
    """True if the other arm's value is subtracted; otherwise this one is divided by it."""
    since: str = ""
    """Another scenario, whose median for the same arm this one is divided by; empty for none."""
    at_least: bool = False
    """True if the bound is the least allowed value, not the largest."""
    magnitude: bool = False
    """True if the sign of the value does not matter."""
    worst: bool = False
    """True if every round has to keep the bound, not only the median."""

    def measured(self, results: Results) -> float | None:
        """Median over the rounds, or the worst; None if a needed arm was not measured."""
        mine = results.of(self.scenario, self.arm, self.value)
        values = list(mine.values())
        if self.against:
            other = results.of(self.scenario, self.against, self.value)
            combine = operator.sub if self.difference else operator.truediv
            values = [combine(mine[at], other[at]) for at in sorted(mine.keys() & other.keys()) if other[at]]
        if not values:
            return None
        if self.magnitude:
            values = [abs(value) for value in values]
        if self.worst:
            return min(values) if self.at_least else max(values)
        if self.since:
            before = list(results.of(self.since, self.arm, self.value).values())
            return mid(values) / mid(before) if before else None
        return mid(values)

    def met(self, measured: float) -> bool:
        """True if this median keeps the bound."""
        return measured >= self.bound if self.at_least else measured <= self.bound

    @property
    def bound_text(self) -> str:
        """The bound as it is shown, such as `<= 1.5 s`."""
        return f"{'>=' if self.at_least else '<='} {self.bound:g}{' ' if self.unit else ''}{self.unit}"


def _held_rate(title: str, scenario: str) -> tuple[Figure, Figure]:
    """How exactly a scenario's publish rate is held."""
    return (
        Figure(
            f"{title}: worst shifted window", scenario, "worst_window_error_percent", 0.5, "%", magnitude=True
        ),
        Figure(f"{title}: first second of rate + burst", scenario, "first_second_of_allowed", 1.0, "x"),
    )


_CPU, _MEMORY = "cpu_s_per_100k", "rss_mb"
_RESTARTS = (
    *(
        Figure(f"{scenario}: {value.replace('_', ' ')}", scenario, value, 0, "", worst=True)
        for scenario, values in {
            "rolling-restarts": (
                "refused_connections",
                "errored_records",
                "lost_records",
                "duplicated_records",
            ),
            "reloads": ("dropped_connections", "errored_records", "lost_records", "duplicated_records"),
            "kill-broker": ("errored_records", "lost_records", "duplicated_records"),
            "kill-gateway": ("refused_connections", "errored_records", "lost_records", "duplicated_records"),
            "overload": ("errored_records", "lost_records", "duplicated_records"),
        }.items()
        for value in values
    ),
    Figure("reloads: growth of memory", "reloads", "grown_mib", 20, "MiB"),
    Figure("overload: growth of memory", "overload", "grown_at_most_mib", 20, "MiB"),
    Figure("overload: the busiest minute", "overload", "highest_minute_of_limit", 1.02, "x the limit"),
    Figure("kill-gateway: a worker is back", "kill-gateway", "worker_back_median_s", 2, "s"),
    Figure("/metrics with 20,000 topics: time of a scrape", "scrape", "scrape_cpu_ms", 200, "ms", arm=ENGINE),
    Figure("admin API with 20,000 topics: explain", "policy-changes", "explain_p95_ms", 50, "ms", arm=ENGINE),
    Figure(
        "admin API with 20,000 topics: a change", "policy-changes", "change_p95_ms", 1_000, "ms", arm=ENGINE
    ),
    Figure(
        "a change by command, 1,000 clients: in force", "changes-under-load", "in_force_max_ms", 1_000, "ms"
    ),
    *(
        Figure(f"1,000 changes by command: {what}", "changes-under-load", value, 0, "", worst=True)
        for what, value in (
            ("clients without an answer", "dropped"),
            ("answers by a mix of two versions", "mixed"),
            ("answers by a version that is not in force", "by_others"),
        )
    ),
    *(
        Figure(f"reading metrics and admin API, {load}: adds to p99", scenario, "read_adds_ms", 1.0, "ms")
        for load, scenario in (("full load", "reading-under-load"), ("half load", "reading-half-load"))
    ),
    Figure("/metrics with 20,000 topics: size of a scrape", "scrape", "scrape_kib", 2048, "KiB", arm=ENGINE),
)
"""Restarts, reloads, kills and long overload: no send fails, nothing that was acknowledged is lost or stored
twice."""

_PULSAR = (
    Figure("Pulsar, 100 B not batched: CPU per 100k", "pulsar-produce-100", _CPU, 0.45, "s"),
    Figure(
        "Pulsar, 100 B not batched: CPU relative to Pulsar Proxy",
        "pulsar-produce-100",
        _CPU,
        1.0,
        "x",
        against=PULSAR_PROXY,
    ),
    Figure(
        "Pulsar, the same rewritten: CPU per 100k", "pulsar-produce-100", _CPU, 1.0, "s", arm=SLUICEGATE_DELAY
    ),
    Figure("Pulsar, 1 KiB batched: CPU per 100k", "pulsar-produce-1k", _CPU, 0.2, "s"),
    Figure("Pulsar, 100 B: memory of the worker", "pulsar-produce-100", _MEMORY, 60, "MB"),
    Figure(
        "Pulsar, the same rewritten: memory", "pulsar-produce-100", _MEMORY, 60, "MB", arm=SLUICEGATE_DELAY
    ),
    Figure("Pulsar, 1 KiB batched: memory of the worker", "pulsar-produce-1k", _MEMORY, 60, "MB"),
    Figure("Pulsar, consuming: memory of the worker", "pulsar-consume", _MEMORY, 60, "MB"),
    Figure(
        "Pulsar, consuming with dispatch rates: memory",
        "pulsar-consume",
        _MEMORY,
        60,
        "MB",
        arm=SLUICEGATE_DISPATCH,
    ),
    *(
        figure
        for kind, late_ms in (("shared", 250), ("exclusive", 60))
        for figure in (
            Figure(
                f"Pulsar, fixed delay, {kind}: messages too early",
                "pulsar-delay",
                f"{kind}_early",
                0,
                "",
                arm=SLUICEGATE_DELAY,
                worst=True,
            ),
            Figure(
                f"Pulsar, fixed delay, {kind}: p99 late",
                "pulsar-delay",
                f"{kind}_p99_late_ms",
                late_ms,
                "ms",
                arm=SLUICEGATE_DELAY,
            ),
        )
    ),
    *_held_rate("Pulsar, rate", "pulsar-rate"),
    *(
        Figure(
            f"Pulsar, {client}: p99 beside a limited producer, relative to alone",
            scenario,
            "p99_of_alone",
            1.5,
            "x",
        )
        for client, scenario in (("C++ and Python", "pulsar-beside"), ("Java", "pulsar-beside-java"))
    ),
    Figure(
        "Pulsar: speed of a producer beside a limited one, relative to alone",
        "pulsar-neighbour",
        "of_alone",
        0.95,
        "x",
        at_least=True,
    ),
)
_GRPC = (
    *_held_rate("gRPC, rate", "grpc-rate"),
    *(
        figure
        for in_flight in (16, 64)
        for figure in (
            Figure(
                f"gRPC, {in_flight} in flight: calls/s relative to nginx",
                f"grpc-unary-{in_flight}",
                "calls_per_s",
                1.2,
                "x",
                against=NGINX,
                at_least=True,
            ),
            Figure(f"gRPC, {in_flight} in flight: CPU per 100k", f"grpc-unary-{in_flight}", _CPU, 2.0, "s"),
        )
    ),
    *(
        Figure(f"gRPC, one call: p50 relative to {arm}", "grpc-unary-1", "p50_ms", bound, "x", against=arm)
        for arm, bound in ((DIRECT, 2.5), (NGINX, 1.0))
    ),
    Figure(
        "gRPC, stream with dispatch rates: messages/s",
        "grpc-streams",
        "messages_per_s",
        60_000,
        "",
        arm=SLUICEGATE_DISPATCH,
        at_least=True,
    ),
    Figure("gRPC, interceptor: its own code", "grpc-interceptor", "alone_us", 10, "us", arm=ENGINE),
    Figure("gRPC, idle connection: memory", "grpc-idle", "kib_per_connection", 20, "KiB"),
    Figure("gRPC, requests without an end: memory", "grpc-open", "mib_grown", 32, "MiB"),
)

_STORAGE = (
    Figure(
        "storage quota: rate of quota x factor, worst step",
        "storage-quota",
        "worst_step_error_percent",
        2.0,
        "%",
        magnitude=True,
        worst=True,
    ),
    # Both look at the volume every 2 s; one interval and a second.
    Figure("storage quota: hard breach to PAUSE", "storage-quota", "pause_s", 3.0, "s", worst=True),
    Figure(
        "storage quota: admitted after PAUSE", "storage-quota", "after_pause_bytes", 0, "bytes", worst=True
    ),
    Figure(
        "storage quota: longest gap of a producer, relative to Strimzi",
        "storage-quota",
        "longest_gap_of_a_producer_s",
        0.5,
        "x",
        against=STRIMZI,
    ),
    *(
        Figure(f"storage quota: records {what}", "storage-quota", value, 0, "", worst=True)
        for what, value in (
            ("errored", "errored_records"),
            ("duplicated", "duplicated_records"),
            ("errored but stored", "errored_but_stored"),
            ("acknowledged but lost", "lost_records"),
        )
    ),
)

FIGURES = (
    Figure("1 KiB produce: proxy CPU per GB", "produce-1k", "cpu_s_per_gb", 1.5, "s"),
    Figure(
        "1 KiB produce: CPU relative to Kroxylicious",
        "produce-1k",
        "cpu_s_per_gb",
        0.6,
        "x",
        against=KROXYLICIOUS,
    ),
    Figure("1 KiB consume: CPU relative to HAProxy", "consume-1k", "cpu_s_per_gb", 1.0, "x", against=HAPROXY),
    Figure(
        "small requests: CPU relative to Kroxylicious, warm",
        "small-requests",
        "cpu_s_per_100k_requests",
        1.1,
        "x",
        against=KROXYLICIOUS,
    ),
    Figure(
        "p99 at 1,000 acks=1 records/s, above direct",
        "latency",
        "p99_ms",
        2.0,
        "ms",
        against=DIRECT,
        difference=True,
    ),
    *_held_rate("rate", "rate"),
    Figure("rate: longest gap of a producer", "rate", "longest_gap_of_a_producer_s", 1.2, "s"),
    Figure(
        "rate: longest gap of a producer, relative to Strimzi",
        "rate",
        "longest_gap_of_a_producer_s",
        0.5,
        "x",
        against=STRIMZI,
    ),
    Figure("rate: Jain between 8 producers", "rate", "jain", 0.99, "", at_least=True),
    *_STORAGE,
    Figure("engine: size + rate + counts, allowed", "engine", "allowed_us", 0.5, "us", arm=ENGINE),
    Figure("engine: a quota factor at 1.0 adds", "engine", "factor_at_1_adds_ns", 20, "ns", arm=ENGINE),
    Figure(
        "engine: 500 topics x 2,000 producers, relative to one topic",
        "engine",
        "many_of_one",
        1.15,
        "x",
        arm=ENGINE,
    ),
    Figure(
        "a plugin's check: looking at it adds", "plugin-checks", "looked_at_adds_ns", 500, "ns", arm=ENGINE
    ),
    Figure("engine: memory of an idle topic", "engine", "idle_topic_kib", 4.0, "KiB", arm=ENGINE),
    *(
        Figure(f"adaptive cycle over 1,000 topics, {when}", "adaptive-cycle", value, 20, "ms", arm=ENGINE)
        for when, value in (("at rest", "at_rest_ms"), ("all throttled", "under_pressure_ms"))
    ),
    *(
        Figure(
            f"1,000 certificates, 200 broken: {what}", "certificate-renewals", value, bound, unit, arm=ENGINE
        )
        for what, value, bound, unit in (
            ("dropped connections", "dropped", 0, ""),
            ("new clients with another", "wrong_certificates", 0, ""),
            ("growth after the first 200", "grown_mib", 5, "MiB"),
        )
    ),
    Figure("a policy changed in etcd, until ten gateways apply it", "policy-change", "longest_s", 1.0, "s"),
    *(
        Figure(f"failover of 200 topics, {arm}: {what}", "failover", value, bound, unit, arm=arm)
        for arm in (METADATA_MEMORY, METADATA_ETCD)
        for what, value, bound, unit in (
            ("once the broker is gone", "reassigned_ms", 2_000, "ms"),
            ("beyond the broker's TTL", "beyond_ttl_ms", 1_000, "ms"),
            ("most topics of a broker over fewest", "max_over_min", 1.2, "x"),
        )
    ),
    *(
        Figure(f"a Danube topic's owner is killed, TTL 2 s: {what}", "failover-kills", value, bound, unit)
        for what, value, bound, unit in (
            ("its new owner, longest of 10", "reassigned_s_longest", 3, "s"),
            ("first message through the gate, longest of 10", "first_message_s_longest", 5, "s"),
            ("first message received, longest of 10", "first_received_s_longest", 5, "s"),
            ("durable entries changed", "durable_changed", 0, ""),
        )
    ),
    Figure(
        "replay: decisions of 8 topics", "replay", "decisions_per_s", 300_000, "/s", arm=SPARK, at_least=True
    ),
    *(
        figure
        for arm in (LOG_FULL, LOG_SUMMARY)
        for figure in (
            Figure(f"{arm}: on the path of messages", "decision-log", "relay_ns", 200, "ns", arm=arm),
            Figure(f"{arm}: in all, Parquet included", "decision-log", "all_ns", 1_300, "ns", arm=arm),
        )
    ),
    *(
        Figure(f"{arm}: on disk, for each decision", "decision-log", "disk_bytes", 12, "bytes", arm=arm)
        for arm in (LOG_FULL, LOG_REAL)
    ),
    Figure("idle connection: memory", "idle-connections", "kib_per_connection", 10.0, "KiB"),
    *_RESTARTS,
    *_PULSAR,
    *_GRPC,
    Figure(
        "reports: five queries over 50 M decisions, relative to DuckDB",
        "reports-50m",
        "total_s",
        2.8,
        "x",
        arm=SPARK,
        against=DUCKDB,
    ),
    Figure(
        "reports: growth from 10 M to 50 M decisions",
        "reports-50m",
        "total_s",
        5.0,
        "x",
        arm=SPARK,
        since="reports-10m",
    ),
    Figure("reports: 1 M decisions end to end", "report-1m", "all_s", 15.0, "s", arm=ARROW),
    Figure(
        "reports: 1 M decisions and 2.7 M observations, of DuckDB",
        "report-observed-1m",
        "all_s",
        3.0,
        "x",
        arm=ARROW,
        against=DUCKDB,
    ),
    Figure("reports: the same in seconds", "report-observed-1m", "all_s", 12.0, "s", arm=ARROW),
    Figure(
        "reports: 10 M decisions of one topic, two workers of one",
        "report-one-topic-10m",
        "jobs_s",
        1 / 1.7,
        "x",
        arm=LOCAL,
        against=ONE_WORKER,
    ),
    Figure("follow: CPU for 100,000 new decisions", "follow-100k", "cpu_s", 8.0, "s", arm=ARROW),
    Figure("recommend: CPU for 6 M decisions", "recommend-6m", "cpu_s", 15.0, "s", arm=ARROW),
    Figure("recommend: peak memory for 6 M decisions", "recommend-6m", "peak_mib", 1024.0, "MiB", arm=ARROW),
)
