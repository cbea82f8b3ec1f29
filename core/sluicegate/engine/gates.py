"""Compiled gates by topic: a bounded cache over states that outlive them."""

from collections.abc import Callable, Iterator, Mapping

from sluicegate.engine.gate import Gate
from sluicegate.engine.state import COUNTERS, BrokerState, TopicState
from sluicegate.model import TopicName

_LOOKED_AT = 64
"""Gates or states to examine when making room for one more."""
_PER_SLICE = 500
"""Gates to examine in one slice of a sweep."""
MAX_GATES = 10_000
"""Bound where no memory is configured."""
BYTES_PER_GATE = 8192
"""Memory of one topic in use, roughly: its gate with some policies, and its share of the states."""


class GateCache:
    """Gates of all topics in use.

    Callers get a gate by `get` each time. One that keeps a gate from message to message compares it first
    with `live` or `exempt`, as policies may have changed; these dicts are never replaced.

    :param compile: `(topic, exempt, now_ns) -> Gate`; takes the state from `state()`.
    :param max_gates: bound on gates, and on states that nothing depends on.
    :param broker: what all topics share; of its own if left out.
    """

    def __init__(
        self,
        compile: Callable[[str, bool, int], Gate],  # noqa: A002
        max_gates: int = MAX_GATES,
        broker: BrokerState | None = None,
    ) -> None:
        self._compile = compile
        self.compiled = 0
        """Gates that were compiled so far, which takes long: sessions do few of them in a turn."""
        self.changes = 0
        """How often the policies have changed; sessions detect outdated caches by it."""
        self.creation_is_policed = True
        """False if no policy is on the creation of any topic, so that no gate has to be asked about it."""
        self.on_replace: list[Callable[[], None]] = []
        """Called after each change of the policies, before any gate is compiled from them."""
        self.max_gates = max_gates
        self.live: dict[str, Gate] = {}
        """Gates for principals that policies apply to, by topic."""
        self.exempt: dict[str, Gate] = {}
        """Gates for exempt principals, by topic."""
        self.states: dict[str, TopicState] = {}
        self.broker = broker or BrokerState()
        """What these states share."""
        self.retired = dict.fromkeys(COUNTERS, 0)
        """Sums of the counters of evicted states, so that totals never decrease."""
        self._gate_rounds = (_Round(self.live), _Round(self.exempt))
        self._state_round = _Round(self.states)
        self._replaced: list[Gate] = []
        """Gates of former policies that can no longer be looked up; taken apart in slices."""

    def get(self, topic: str, exempt: bool, now_ns: int) -> Gate:
        """The gate of a topic, compiled if there is none.

        :raises Exception: whatever `compile` raises; the cache is unchanged then.
        """
        # <hot> Runs for nearly every operation.
        gates = self.exempt if exempt else self.live
        gate = gates.get(topic)
        if gate is None:
            state = self.states.get(topic)
            if state is not None:
                state.now_ns = now_ns
            gate = self._compile(topic, exempt, now_ns)
            self.compiled += 1
            _was_used(gate)
            if len(gates) >= self.max_gates:
                self._evict(gates, self._gate_rounds[exempt], now_ns)
            gates[topic] = gate
        return gate

    def state(self, topic: TopicName, now_ns: int) -> TopicState:
        """The state of a topic, created if there is none."""
        state = self.states.get(topic.full)
        if state is None:
            if len(self.states) >= 2 * self.max_gates:
                self._evict_states(now_ns)
            state = self.states[topic.full] = TopicState(topic, now_ns, self.broker)
        return state

    def replace(self) -> None:
        """Drop all gates, as the policies changed: the next look-up of each topic compiles again."""
        # Freeing thousands of gates blocks the loop for long; as many as fit into the cache may wait.
        if len(self._replaced) < self.max_gates:
            self._replaced += (*self.live.values(), *self.exempt.values())
        self.live.clear()
        self.exempt.clear()
        self.changes += 1
        for tell in self.on_replace:
            tell()

    def refuse(self, compile: Callable[[str, bool, int], Gate]) -> None:  # noqa: A002
        """Let every further use of a gate fail.

        :param compile: raises the error.
        """
        self._compile = compile
        self.replace()

    def drop_unused(self) -> Iterator[None]:
        """Drop the gates that are unused since the last sweep; call it about once a minute.

        A topic at rest then costs its state only; its next use compiles a gate in some 50 us. Yields between
        two slices of the sweep.
        """
        yield from self.drop_replaced()
        for gates in (self.live, self.exempt):
            for index, (topic, gate) in enumerate(tuple(gates.items())):
                if index % _PER_SLICE == _PER_SLICE - 1:
                    yield
                # Another one may have taken its place between two slices.
                if not _was_used(gate) and gates.get(topic) is gate:
                    del gates[topic]

    def drop_replaced(self) -> Iterator[None]:
        """Free the gates of former policies; yields between two slices."""
        while self._replaced:
            del self._replaced[-_PER_SLICE:]
            yield

    def _evict(self, gates: dict[str, Gate], topics: "_Round", now_ns: int) -> None:
        """Make room for one gate: the next that was not used since the last look at it (CLOCK).

        If the next few all were, one of them is evicted anyway: scanning thousands would take longer than
        compiling one again.
        """
        for _ in range(min(len(gates), _LOOKED_AT)):
            topic = topics.next()
            if not _was_used(gates[topic]):
                break
        gate = gates.pop(topic)
        if topic not in self.live and topic not in self.exempt and gate.state.is_evictable(now_ns):
            self._forget(topic)

    def _evict_states(self, now_ns: int) -> None:
        """Forget those of the next few states that are at rest and have no gate.

        More of them than one state needs, so that states become fewer wherever some are at rest.
        """
        states = self.states
        for _ in range(min(len(states), _LOOKED_AT)):
            topic = self._state_round.next()
            if topic not in self.live and topic not in self.exempt and states[topic].is_evictable(now_ns):
                self._forget(topic)

    def _forget(self, topic: str) -> None:
        state = self.states.pop(topic, None)
        if state is not None:
            for counter in COUNTERS:
                self.retired[counter] += getattr(state, counter)


class _Round:
    """Goes round the keys of a dict that changes meanwhile; a step takes the same time in a large one."""

    def __init__(self, keys: Mapping[str, object]) -> None:
        self._keys = keys
        self._ahead: list[str] = []

    def next(self) -> str:
        """The next key; the dict must not be empty."""
        while True:
            if not self._ahead:
                self._ahead = list(self._keys)[::-1]
            key = self._ahead.pop()
            if key in self._keys:
                return key


def _was_used(gate: Gate) -> bool:
    """True if a gate was used since the last call. It compares counters, so use itself costs nothing."""
    state = gate.state
    ops = state.allowed_ops + state.rejected + state.delayed + state.dropped
    used = gate.seen_ops != ops
    gate.seen_ops = ops
    return used
