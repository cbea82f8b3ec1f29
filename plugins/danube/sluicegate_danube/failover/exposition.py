"""A controller's figures as Prometheus metrics, over HTTP."""

from collections.abc import Callable, Iterable
from dataclasses import fields
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
        for figure in fields(figures):
            documented, value = figure.metadata, getattr(figures, figure.name)
            if "label" in documented:
                family = GaugeMetricFamily(
                    _PREFIX + documented["metric"], documented["text"], labels=[documented["label"]]
                )
                for state, count in sorted(value.items()):
                    family.add_metric([state], count)
                yield family
            elif "metric" in documented:
                yield GaugeMetricFamily(_PREFIX + documented["metric"], documented["text"], value=value)
            elif documented:
                yield CounterMetricFamily(_PREFIX + figure.name, documented["text"], value=value)
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
