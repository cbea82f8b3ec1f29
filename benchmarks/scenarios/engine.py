"""What one decision costs, and what an idle topic takes: the engine alone, no broker and no socket."""

import gc
import itertools
import random
import time
import tracemalloc
from collections.abc import Sequence
from typing import Literal

from benchmarks.harness.arms import Bench
from benchmarks.harness.gates import gate_cache
from benchmarks.harness.names import ENGINE
from benchmarks.harness.scenario import Scenario
from sluicegate.decisions.log import DecisionLog
from sluicegate.engine.factors import Factor
from sluicegate.engine.gates import GateCache
from sluicegate.model import Operation, OperationKind
from sluicegate.testing import NullSink

_POLICIES = {
    "max_message_size": 4 * 2**20,
    "max_publish_rate": 2_000_000_000,
    "max_publish_rate_bytes": 2_000_000_000,
    "max_producers_per_topic": 1_000_000,
    "max_subscriptions_per_topic": 1000,
    "max_consumers_per_topic": 1000,
}
"""Size, rate and counts, so far above the load that everything is allowed."""
_STEP_NS = 10_000
_TOPICS = 500
_PRODUCERS = 2000
_REPEATS = 7
_ROUNDS = 5
_MANY = 1000


def _engine(_: Bench, _name: str, quick: bool) -> dict[str, float]:
    calls = 20_000 if quick else 200_000
    # First: leftovers of the others would spread the 500 topics over more memory than they need.
    many = _many_of_one(calls)
    one = _operations(topics=1, producers=1)
    policed = gate_cache(_POLICIES, NullSink())
    _attach(policed, one)
    defaults = gate_cache({}, NullSink())
    return {
        **_factor_ns(one, calls // 4),
        "allowed_us": _decision_us(policed, one, calls),
        "allowed_log_summary_us": _logged_us("summary", one, calls),
        "allowed_log_full_us": _logged_us("full", one, calls // 10),
        "allowed_with_lookup_us": _lookup_us(policed, one, calls),
        "default_size_only_us": _decision_us(defaults, one, calls),
        "many_of_one": many,
        **_idle_topic_kib(_POLICIES),
    }


def _operations(topics: int, producers: int) -> list[Operation]:
    """One publish of 1 KB for each producer; producers are spread over the topics in random order."""
    operations = [
        Operation(
            OperationKind.PUBLISH,
            f"topic-{number % topics}",
            client=f"client-{number}",
            producer=f"producer-{number}",
            messages=1,
            bytes=1000,
            largest=1000,
        )
        for number in range(producers)
    ]
    random.Random(1).shuffle(operations)
    return operations


def _attach(cache: GateCache, operations: Sequence[Operation]) -> None:
    for op in operations:
        op.kind = OperationKind.ATTACH_PRODUCER
        assert cache.get(op.topic, False, 0).decide(op, 0) is None
        op.kind = OperationKind.PUBLISH


def _decision_us(cache: GateCache, operations: Sequence[Operation], calls: int) -> float:
    """Microseconds of one allowed decision: the best of several repeats, less the loop around it."""
    op = operations[0]
    publish = cache.get(op.topic, False, 0).publish
    assert publish(op, 0) is None
    now, best, empty = 0, float("inf"), float("inf")
    for _ in range(_REPEATS):
        start = time.perf_counter_ns()
        for _call in itertools.repeat(None, calls):
            now += _STEP_NS
            publish(op, now)
        best = min(best, time.perf_counter_ns() - start)
        start = time.perf_counter_ns()
        for _call in itertools.repeat(None, calls):
            now += _STEP_NS
        empty = min(empty, time.perf_counter_ns() - start)
    return (best - empty) / calls / 1000


def _factor_ns(operations: Sequence[Operation], calls: int) -> dict[str, float]:
    """What a quota factor adds to a decision, in ns: at 1.0, and below it where nothing has to wait."""
    best = {0.0: float("inf"), 1.0: float("inf"), 0.9: float("inf")}  # 0.0 is for none at all
    for _ in range(_ROUNDS):  # in turn, so that what else the machine does meets all alike
        for value in best:
            factor = Factor("disk", "")
            cache = gate_cache(_POLICIES, NullSink(), [factor] if value else [])
            _attach(cache, operations)
            factor.set(value, "")
            best[value] = min(best[value], _decision_us(cache, operations, calls))
    return {
        "factor_at_1_adds_ns": 1000 * (best[1.0] - best[0.0]),
        "factor_below_1_adds_ns": 1000 * (best[0.9] - best[0.0]),
    }


def _logged_us(detail: Literal["summary", "full"], operations: Sequence[Operation], calls: int) -> float:
    """The same with the decision log as sink: what it adds on the path of messages, its thread at rest."""
    queued = 2 * _REPEATS * calls
    log = DecisionLog(None, "kafka", "benchmark", detail, max_rows_queued=queued, period_s=3600)
    try:
        cache = gate_cache(_POLICIES, log)
        _attach(cache, operations)
        return _decision_us(cache, operations, calls)
    finally:
        log.close()


def _lookup_us(cache: GateCache, operations: Sequence[Operation], calls: int) -> float:
    """The same with what a door does before it: find the topic's gate and read the clock."""
    live, clock, best = cache.live, time.monotonic_ns, float("inf")
    rounds = itertools.chain.from_iterable(itertools.repeat(operations))
    for _ in range(_REPEATS):
        start = time.perf_counter_ns()
        for op in itertools.islice(rounds, calls):
            live[op.topic].publish(op, clock())
        best = min(best, time.perf_counter_ns() - start)
    return best / calls / 1000


def _many_of_one(calls: int) -> float:
    """Cost with 500 topics as a multiple of that with one, by 2,000 producers either way."""
    costs = []
    for topics in (1, _TOPICS):
        operations = _operations(topics, _PRODUCERS)
        cache = gate_cache(_POLICIES, NullSink())
        _attach(cache, operations)
        costs.append(_lookup_us(cache, operations, max(calls, _PRODUCERS)))
    return costs[1] / costs[0]


def _idle_topic_kib(policies: dict[str, int]) -> dict[str, float]:
    """KiB of a topic without producers: just published to, and idle, when its gate has been dropped."""
    cache = gate_cache(policies, NullSink())
    cache.get("first", False, 0)
    operations = _operations(_MANY, _MANY)
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for op in operations:
            cache.get(op.topic, False, 0).publish(op, 0)
        gc.collect()
        both, _ = tracemalloc.get_traced_memory()
        # What a worker does once a minute: the second look finds the gates unused since the first.
        for _ in (*cache.drop_unused(), *cache.drop_unused()):
            pass
        gc.collect()
        state, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return {
        "used_topic_kib": (both - before) / _MANY / 1024,
        "idle_topic_kib": (state - before) / _MANY / 1024,
    }


SCENARIOS = (
    Scenario(
        "engine",
        "cost of an allowed decision, of many topics, and memory of an idle one",
        (ENGINE,),
        _engine,
        cold_round=False,
    ),
)
