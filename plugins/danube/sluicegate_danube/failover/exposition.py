"""A controller's figures as Prometheus metrics, over HTTP."""

from collections.abc import Callable, Iterable, Mapping
from time import monotonic_ns

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sluicegate_danube.failover.figures import Figures

_PREFIX = "sluicegate_danube_failover_"
_NS = 1_000_000_000
_COUNTERS = {
    "failovers": "Dead brokers whose topics all have a new owner.",
    "topics_released": "Topics taken from a broker.",
    "owners_changed": "Topics given to a broker.",
    "conflicts": "Moves left for the next turn, as the cluster had changed.",
    "store_errors": "Calls that the metadata store did not answer, or refused.",
    "foreign_writes": "Assignments that another load manager wrote while this controller led.",
    "registered_again": "Registrations of brokers under an id that was in use.",
}
_GAUGES: Mapping[str, tuple[str, Callable[[Figures], float]]] = {
    "leader": ("1 if this controller acts.", lambda figures: figures.leading),
    "last_failover_timestamp_seconds": (
        "When the last failover was complete, Unix time; 0 if there was none.",
        lambda figures: figures.last_failover_s,
    ),
    "last_failover_duration_seconds": (
        "From the absence of the last dead broker until its last topic had a new owner.",
        lambda figures: figures.last_failover_took_s,
    ),
    "strange_keys": ("Keys and values of no known shape.", lambda figures: figures.strange_keys),
}
_LABELLED: Mapping[str, tuple[str, str, Callable[[Figures], Mapping[str, int]]]] = {
    "brokers": ("Brokers by state.", "state", lambda figures: figures.brokers),
    "topics": ("Topics by state.", "state", lambda figures: figures.topics),
    "incomplete_topics": (
        "Topics of the last failover without an entry that brokers look for.",
        "entry",
        lambda figures: figures.incomplete,
    ),
}


class FailoverCollector(Collector):
    """Makes metrics of the figures when they are asked for.

    :param now_ns: the clock of the figures, monotonic.
    """

    def __init__(self, figures: Figures, now_ns: Callable[[], int] = monotonic_ns) -> None:
        self._figures = figures
        self._now_ns = now_ns

    def collect(self) -> Iterable[Metric]:
        """All metrics."""
        figures = self._figures
        for name, text in _COUNTERS.items():
            yield CounterMetricFamily(_PREFIX + name, text, value=getattr(figures, name))
        for name, (text, read) in _GAUGES.items():
            yield GaugeMetricFamily(_PREFIX + name, text, value=read(figures))
        for name, (text, label, counts) in _LABELLED.items():
            family = GaugeMetricFamily(_PREFIX + name, text, labels=[label])
            for value, count in sorted(counts(figures).items()):
                family.add_metric([value], count)
            yield family
        text = "Time since the metadata store last answered."
        age = GaugeMetricFamily(f"{_PREFIX}store_age_seconds", text)
        if figures.store_answered_ns is not None:
            age.add_metric([], (self._now_ns() - figures.store_answered_ns) / _NS)
        yield age


def make_app(figures: Figures) -> Starlette:
    """The application: `/metrics`, and `/livez`, which answers while the process runs."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(FailoverCollector(figures))

    async def metrics(request: Request) -> Response:
        return Response(generate_latest(registry), headers={"content-type": CONTENT_TYPE_LATEST})

    async def livez(request: Request) -> Response:
        return PlainTextResponse("ok\n")

    return Starlette(routes=[Route("/metrics", metrics), Route("/livez", livez)])
