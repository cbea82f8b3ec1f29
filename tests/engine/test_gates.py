"""The cache of gates: bounded, replaced whole, states kept."""

import pytest

from sluicegate.engine.compiling import compile_gate
from sluicegate.engine.gate import Gate, GateFaults
from sluicegate.engine.gates import GateCache
from sluicegate.engine.state import TopicState
from sluicegate.model import EffectivePolicies, Operation, OperationKind, TopicName
from sluicegate.testing import NullSink


class Compiler:
    """Compiles empty gates and counts them."""

    def __init__(self, max_gates: int = 100) -> None:
        self.compiled: list[tuple[str, bool]] = []
        self.version = 1
        self.cache = GateCache(self, max_gates)

    def __call__(self, topic: str, exempt: bool, now_ns: int) -> Gate:
        self.compiled.append((topic, exempt))
        name = TopicName(topic, "default")
        state = self.cache.state(name, now_ns)
        policies = EffectivePolicies(topic, self.version, {}, {})
        return compile_gate(name, policies, state, [], None, NullSink(), GateFaults(), exempt)


def use(gate: Gate) -> None:
    gate.publish(Operation(OperationKind.PUBLISH, gate.topic.full, messages=1), 0)


def test_a_gate_is_compiled_once_per_topic_and_exemption_class() -> None:
    compiler = Compiler()
    cache = compiler.cache

    gate = cache.get("t", False, 0)

    assert cache.get("t", False, 1) is gate
    assert cache.live["t"] is gate
    exempt = cache.get("t", True, 1)
    assert cache.exempt == {"t": exempt}
    assert exempt.state is gate.state
    assert compiler.compiled == [("t", False), ("t", True)]


@pytest.mark.seed("S1-024")
def test_replacing_drops_gates_and_keeps_states() -> None:
    compiler = Compiler()
    cache = compiler.cache
    live = cache.live
    old = cache.get("t", False, 0)
    old.state.producers.attach("p", "a")

    compiler.version = 2
    cache.replace()

    assert live is cache.live
    assert not cache.live
    new = cache.get("t", False, 9)
    assert new.version == 2
    assert new.state is old.state
    assert len(new.state.producers) == 1
    assert new.state.now_ns == 9


def test_each_change_of_the_policies_is_counted_and_told_before_a_gate_is_compiled() -> None:
    compiler = Compiler()
    cache = compiler.cache
    told: list[tuple[int, int]] = []
    cache.on_replace.append(lambda: told.append((cache.changes, len(compiler.compiled))))
    for _ in range(2):
        cache.replace()
        cache.get("t", False, 0)
    assert told == [(1, 0), (2, 1)]


def test_the_cache_stays_within_its_bound_and_keeps_used_gates() -> None:
    cache = Compiler(10).cache
    busy = cache.get("busy", False, 0)
    for number in range(200):
        use(busy)
        assert cache.live["busy"] is busy
        cache.get(f"noise {number}", False, 0)

    assert len(cache.live) <= 10
    assert len(cache.states) <= 20


def test_the_cache_evicts_even_if_all_gates_are_in_use() -> None:
    cache = Compiler(3).cache
    for number in range(10):
        for gate in cache.live.values():
            use(gate)
        cache.get(f"t{number}", False, 0)

    assert len(cache.live) == 3


class Looks:
    """Counts how often it is asked whether a state is at rest."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, answer: bool) -> None:
        self.count = 0
        monkeypatch.setattr(TopicState, "is_evictable", lambda state, now_ns: self._asked(answer))

    def _asked(self, answer: bool) -> bool:
        self.count += 1
        return answer


def test_adding_a_topic_scans_a_bounded_number_of_states(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Compiler(500).cache
    for number in range(1_000):
        cache.get(f"t{number}", False, 0)
        cache.replace()
    looks = Looks(monkeypatch, answer=False)
    for number in range(10):
        cache.get(f"more {number}", False, 0)
    assert 0 < looks.count <= 10 * 64
    assert len(cache.states) == 1_010


def test_evictable_states_are_found_behind_others() -> None:
    cache = Compiler(100).cache
    for number in range(150):
        cache.get(f"attached {number}", False, 0).state.producers.attach("p", "a")
    for number in range(200):
        cache.get(f"t{number}", False, 0)
        cache.replace()
    assert len(cache.states) <= 200 + 64
    assert sum(topic.startswith("attached") for topic in cache.states) == 150


def test_an_eviction_scans_few_gates() -> None:
    cache = Compiler(1_000).cache
    gates = [cache.get(f"t{number}", False, 0) for number in range(1_000)]
    for gate in gates:
        use(gate)
    cache.get("one more", False, 0)
    assert len(cache.live) == 1_000
    assert sum(gate.seen_ops > 0 for gate in gates) <= 64


def test_many_gates_are_dropped_in_slices() -> None:
    cache = Compiler(5_000).cache
    for number in range(2_000):
        cache.get(f"t{number}", False, 0)
    assert len(list(cache.drop_unused())) == 4
    assert not cache.live
    for number in range(2_000):
        cache.get(f"t{number}", False, 0)
    cache.replace()
    assert len(list(cache.drop_replaced())) == 4
    assert list(cache.drop_replaced()) == []


def test_states_with_attachments_or_debt_survive_eviction_and_totals_never_fall() -> None:
    cache = Compiler(2).cache
    attached = cache.get("attached", False, 0)
    attached.state.producers.attach("p", "a")
    indebted = cache.get("indebted", False, 0)
    indebted.state.limiter("rate", 10, 0, 1.0, 0).bucket.charge(100, 0, 0)
    for number in range(20):
        use(cache.get(f"noise {number}", False, 0))

    assert cache.get("attached", False, 0).state is attached.state
    assert cache.get("indebted", False, 0).state is indebted.state
    total = cache.retired["allowed_ops"] + sum(state.allowed_ops for state in cache.states.values())
    assert total == 20
    assert cache.retired["allowed_messages"] > 0


def test_states_left_by_replaced_gates_are_forgotten_when_there_are_too_many() -> None:
    cache = Compiler(5).cache
    for number in range(50):
        cache.get(f"t{number}", False, 0)
        cache.replace()

    assert len(cache.states) <= 11


def test_drop_unused_keeps_what_was_used_since() -> None:
    cache = Compiler().cache
    busy, idle = cache.get("busy", False, 0), cache.get("idle", True, 0)
    use(busy)
    use(idle)
    assert list(cache.drop_unused()) == []
    assert (len(cache.live), len(cache.exempt)) == (1, 1)

    use(busy)
    assert list(cache.drop_unused()) == []

    assert cache.live == {"busy": busy}
    assert cache.exempt == {}
    assert cache.get("idle", True, 0).state is idle.state


def test_a_gate_of_a_topic_used_earlier_counts_as_unused_until_its_next_use() -> None:
    cache = Compiler().cache
    use(cache.get("t", False, 0))
    cache.replace()
    cache.get("t", False, 0)

    assert list(cache.drop_unused()) == [None]  # the replaced gate takes a slice

    assert not cache.live


def test_a_failing_compile_leaves_the_cache_as_it_was() -> None:
    def fail(topic: str, exempt: bool, now_ns: int) -> Gate:
        raise LookupError(topic)

    cache = GateCache(fail, 1)

    with pytest.raises(LookupError, match="t"):
        cache.get("t", False, 0)
    assert not cache.live


def test_the_cache_counts_compilations() -> None:
    cache = Compiler().cache
    for topic in ("a", "b", "a"):
        cache.get(topic, False, 0)

    assert cache.compiled == 2


def test_states_without_gates_are_as_many_as_twice_the_gates_at_most() -> None:
    cache = Compiler(2).cache
    for number in range(4):
        cache.get(f"t{number}", False, 0)
        cache.replace()
    assert len(cache.states) == 4

    cache.get("one more", False, 0)

    assert set(cache.states) == {"one more"}


def test_gates_of_former_policies_are_kept_while_the_cache_has_room() -> None:
    cache = Compiler(2).cache
    for topics in (("a", "b"), ("c",)):
        for topic in topics:
            cache.get(topic, False, 0)
        cache.replace()

    assert [gate.topic.full for gate in cache._replaced] == ["a", "b"]


def test_an_evictable_topic_is_dropped_with_its_last_gate() -> None:
    cache = Compiler(1).cache
    cache.get("t", False, 0)
    cache.get("t", True, 0)

    cache.get("second", False, 0)
    assert set(cache.states) == {"t", "second"}  # exempt principals use it still

    cache.get("second", True, 0)
    assert set(cache.states) == {"second"}


@pytest.mark.parametrize("counter", ["rejected", "delayed", "dropped"])
def test_a_gate_that_refuses_as_much_as_it_allows_is_in_use(counter: str) -> None:
    cache = Compiler().cache
    gate = cache.get("t", False, 0)
    use(gate)
    setattr(gate.state, counter, 1)

    assert list(cache.drop_unused()) == []

    assert cache.live == {"t": gate}


def test_each_eviction_looks_at_the_gates_behind_those_of_the_one_before() -> None:
    """To begin anew each time means to skip all that were evicted, more of them in a larger cache."""
    cache = Compiler(200).cache
    gates = [cache.get(f"t{number}", False, 0) for number in range(200)]
    for gate in gates:
        use(gate)
    for number in range(3):
        cache.get(f"new {number}", False, 0)
    assert [number for number in range(200) if f"t{number}" not in cache.live] == [63, 127, 191]
    assert sum(gate.seen_ops > 0 for gate in gates) == 3 * 64
