"""Windows of allows: what is counted is told once, whatever the order of counting and collecting."""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.decisions.conftest import FakeGate

from sluicegate.decisions import allow_windows as windows_module
from sluicegate.decisions.allow_windows import WINDOW_NS, AllowWindows, Window
from sluicegate.model import Operation, OperationKind, TopicName


def numbered(number: int) -> FakeGate:
    return FakeGate(TopicName(f"t{number}", "default"))


GATES = [numbered(number) for number in range(3)]
KINDS = [OperationKind.PUBLISH, OperationKind.DISPATCH, OperationKind.ATTACH_PRODUCER]
ALLOW = st.tuples(st.sampled_from(GATES), st.sampled_from(KINDS), st.integers(0, 5), st.integers(0, 99))
STEP = st.one_of(ALLOW, st.integers(0, 30 * WINDOW_NS).map(lambda ns: ("pass", ns)), st.just(("collect",)))


def totals(windows: list[Window]) -> dict[tuple[object, OperationKind], tuple[int, int, int]]:
    found: dict[tuple[object, OperationKind], tuple[int, int, int]] = {}
    for window in windows:
        key = (window.gate, window.kind)
        operations, messages, nbytes = found.get(key, (0, 0, 0))
        found[key] = (operations + window.operations, messages + window.messages, nbytes + window.bytes)
    return found


@settings(max_examples=200, deadline=None)
@given(st.lists(STEP, max_size=60))
def test_every_allow_is_reported_exactly_once(steps: list[tuple[object, ...]]) -> None:
    windows = AllowWindows()
    told: list[Window] = []
    sent: list[Window] = []
    now_ns = 0
    for step in steps:
        match step:
            case ("pass", int(passed)):
                now_ns += passed
            case ("collect",):
                told += windows.collect(now_ns)
            case (FakeGate() as gate, OperationKind() as kind, int(messages), int(nbytes)):
                windows.allowed(gate, Operation(kind, "t", messages=messages, bytes=nbytes), now_ns)
                sent.append(Window(now_ns, gate, kind, 1, messages, nbytes))
    assert windows.decided == len(sent)
    told += windows.collect_all()

    assert totals(told) == totals(sent)
    assert all(window.start_ns % WINDOW_NS == 0 for window in told)
    assert windows.collect_all() == []


def test_a_window_in_progress_is_not_collected() -> None:
    windows = AllowWindows()
    windows.allowed(GATES[0], Operation(OperationKind.PUBLISH, "t"), 0)

    assert windows.collect(WINDOW_NS) == []
    assert len(windows.collect(2 * WINDOW_NS)) == 1


def test_unused_gates_are_dropped() -> None:
    windows = AllowWindows()
    op = Operation(OperationKind.PUBLISH, "t", messages=1)
    for number in range(5_000):
        windows.allowed(numbered(number), op, number * WINDOW_NS)
    told = windows.collect(10_000 * WINDOW_NS)

    assert len(windows._published) < 1_300
    assert windows.decided == 5_000
    assert sum(window.operations for window in told) == 5_000
    assert windows._live == set()


def test_nothing_is_lost_without_collection_for_a_long_time() -> None:
    windows = AllowWindows()
    op = Operation(OperationKind.PUBLISH, "t")
    count = windows_module._MAX_CLOSED + 500
    for number in range(count):
        windows.allowed(GATES[number % 3], op, number * WINDOW_NS)

    assert len(windows._closed) == windows_module._MAX_CLOSED
    assert sum(window.operations for window in windows.collect((count + 2) * WINDOW_NS)) == count
