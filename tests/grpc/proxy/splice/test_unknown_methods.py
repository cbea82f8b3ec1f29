"""Methods that the map does not name."""

from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.talk import METHODS, Talk, front

from sluicegate.model import Method, Role
from sluicegate_grpc.proxy.unknown import UnknownMethods

OTHER = "/t.Other/Anything"


def talk(rule: object, told: list[tuple[str, bool]]) -> Talk:
    shared = front()
    shared.rules.unknown_methods = UnknownMethods(rule, lambda path, passes: told.append((path, passes)))  # type: ignore[arg-type]
    return Talk(shared)


def test_unknown_methods_are_refused_and_not_forwarded() -> None:
    told: list[tuple[str, bool]] = []
    of = talk("refuse", told)
    for _ in range(3):
        status, text = of.refused(of.call(OTHER, service.message((1, b"x" * 10_000)), end=False))
        assert (status, "unknown_methods: {t.Other: pass}" in text) == ("12", True)
    assert told == [(OTHER, False)]
    assert of.shared.counts["unknown_method_refused"] == 3
    assert of.session.open_calls == 0
    of.hang_up()


def test_unknown_methods_of_allowed_services_pass() -> None:
    told: list[tuple[str, bool]] = []
    of = talk({"t.Other": "pass"}, told)
    for _ in range(2):
        stream = of.call(OTHER, service.message((1, b"x")))
        of.answer(stream, service.message((1, b"y")))
        assert of.client(stream).status == "0"
    assert of.refused(of.call("/t.Broker/Unheard", b""))[0] == "12"
    assert told == [(OTHER, True), ("/t.Broker/Unheard", False)]
    assert of.shared.counts["unknown_method"] == 2
    of.hang_up()


def test_the_number_of_reported_method_names_is_bounded() -> None:
    told: list[tuple[str, bool]] = []
    unknown = UnknownMethods("refuse", lambda path, passes: told.append((path, passes)))
    for number in range(3_000):
        refusal = unknown.refusal(f"/t.{'x' * 5_000}/M{number}")
        assert refusal is not None
        assert len(refusal.text) < 700
        unknown.refusal(f"/t.Other/M{number}")
    assert len(told) == 1_000


def test_methods_listed_to_pass_are_neither_read_nor_counted() -> None:
    shared = front()
    shared.rules.methods = type(METHODS)("made-up", {**METHODS.methods, OTHER: Method(Role.PASS)})
    shared.rules.unknown_methods = UnknownMethods("refuse")
    of = Talk(shared)
    stream = of.call(OTHER, b"no message at all")
    of.answer(stream, service.message((1, b"y")))
    assert of.client(stream).status == "0"
    assert not {"unknown_method", "unknown_method_refused"} & set(shared.counts)
    of.hang_up()
