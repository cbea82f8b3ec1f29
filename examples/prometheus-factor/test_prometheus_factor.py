"""The factor follows a query; a server that fails acts by `on_unknown`. No gateway is needed."""

import asyncio
import json
import logging
import socket
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
import sluicegate_prometheus_factor as plugin

from sluicegate.api import Action, Operation, OperationKind
from sluicegate.testing import ManualContext, build_gate

PUBLISH = Operation(OperationKind.PUBLISH, "orders.eu", messages=100, bytes=100, largest=1)


class Prometheus:
    """Answers every query with `result`."""

    def __init__(self):
        self.kind, self.result, self.status, self.asked = "vector", [], 200, []
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                double.asked.append(self.path)
                self.send_response(double.status)
                self.end_headers()
                data = {"resultType": double.kind, "result": double.result}
                self.wfile.write(json.dumps({"status": "success", "data": data}).encode())

            def log_message(self, *arguments):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def gives(self, *values):
        self.result = [{"metric": {}, "value": [1_700_000_000.5, value]} for value in values]

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def prometheus():
    double = Prometheus()
    yield double
    double.close()


def closed_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def broker(url, **more):
    """A broker's gateway with this plugin, and its factor."""
    values = {
        plugin.URL: url,
        plugin.NAME: 'a{b="c"} & d',
        plugin.INTERVAL: 50,
        plugin.TIMEOUT: 60_000,
        "max_publish_rate": 100,
        **more,
    }
    context = ManualContext(values=values)
    context.add(plugin.sluicegate_quota_factors(context))
    return context, context.factors.get(plugin.NAME)


def follow(context):
    [task] = plugin.sluicegate_tasks(context)
    assert task.interval_ms() == 50
    asyncio.run(task.run())


def test_the_rate_follows_the_query(prometheus):
    context, factor = broker(prometheus.url)
    gate = build_gate({"max_publish_rate": "100/s"}, now_ns=0, context=context)
    prometheus.gives("0.25")
    follow(context)
    assert (factor.value, factor.known, factor.why) == (0.25, True, "the query gives 0.25")
    assert prometheus.asked == ["/api/v1/query?query=a%7Bb%3D%22c%22%7D%20%26%20d"]

    one = Operation(OperationKind.PUBLISH, "orders.eu", messages=1, bytes=1, largest=1)
    passed, now_ns = 0, 0
    while now_ns < 100 * 10**9:
        held = gate.publish(one, now_ns)
        passed += held is None
        now_ns += 0 if held is None else held.delay_ns
    assert passed == pytest.approx(100 * 25, rel=0.02)


@pytest.mark.parametrize(("told", "value"), [("1.7", 1.0), ("-0.2", 0.0), ("0", 0.0), ("1", 1.0)])
def test_what_is_beyond_0_and_1_counts_as_these(prometheus, told, value):
    context, factor = broker(prometheus.url)
    prometheus.gives(told)
    follow(context)
    assert (factor.value, factor.known) == (value, True)


def test_a_scalar_is_a_number_too(prometheus):
    context, factor = broker(prometheus.url)
    prometheus.kind, prometheus.result = "scalar", [1_700_000_000, "0.5"]
    follow(context)
    assert factor.value == 0.5


def none(double):
    double.gives()


def two(double):
    double.gives("0.1", "0.2")


def not_a_number(double):
    double.gives("NaN")


def a_range(double):
    double.kind, double.result = "matrix", [{"metric": {}, "values": [[1, "0.5"]]}]


def an_error(double):
    double.status = 503


def too_much(double):
    double.gives("0." + "1" * plugin.LARGEST_ANSWER)


@pytest.mark.parametrize("broken", [none, two, not_a_number, a_range, an_error, too_much])
@pytest.mark.parametrize(("choice", "value"), [("pause", 0.0), ("open", 1.0), ("last", 0.5)])
def test_what_gives_no_number_acts_by_on_unknown(prometheus, caplog, broken, choice, value):
    context, factor = broker(prometheus.url, **{f"on_unknown.{plugin.NAME}": choice})
    prometheus.gives("0.5")
    follow(context)
    broken(prometheus)
    with caplog.at_level(logging.WARNING):
        follow(context)
        follow(context)
    assert (factor.value, factor.known) == (value, False)
    assert caplog.text.count("Prometheus gives no factor") == 1


@pytest.mark.parametrize(("choice", "value"), [("pause", 0.0), ("open", 1.0), ("last", 0.0)])
def test_a_server_that_never_answered(caplog, choice, value):
    context, factor = broker(f"http://127.0.0.1:{closed_port()}", **{f"on_unknown.{plugin.NAME}": choice})
    assert factor.value == value  # even before the first query
    follow(context)
    assert caplog.text.count("Prometheus gives no factor") == 1
    assert (factor.value, factor.known) == (value, False)
    gate = build_gate({"max_publish_rate": "100/s"}, now_ns=0, context=context)
    held = gate.publish(PUBLISH, 0)
    if value == 0.0:
        assert held.action is Action.DELAY
        assert held.reasons[0].policy == plugin.NAME
        assert "Prometheus gives no factor" in held.text
    else:
        assert held is None


def test_without_a_query_nothing_is_asked_and_nothing_restricted(prometheus):
    context, factor = broker(prometheus.url)
    prometheus.gives("0.5")
    follow(context)
    del context.values[plugin.NAME]
    follow(context)
    assert (factor.value, len(prometheus.asked)) == (1.0, 1)


def test_other_gateways_of_a_fleet_take_over_what_one_asked_for(prometheus):
    context, _ = broker(prometheus.url)
    other_context, other = broker(prometheus.url)
    prometheus.gives("0.25")
    follow(context)
    [task], [other_task] = map(plugin.sluicegate_tasks, (context, other_context))
    other_task.shared.take(task.shared.findings(), 0.0)
    assert (other.value, other.why, other.known) == (0.25, "the query gives 0.25", True)
    assert len(prometheus.asked) == 1
