"""Topics that clients create, and the policies that apply to that."""

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.codec.entities import decode_request, decode_response, full, request_schema, response_schema
from tests.kafka.session.wire import Bench, Wire, request, response

from sluicegate.engine.check import Check
from sluicegate.hooks import hookimpl
from sluicegate.model import Action, Decision, Operation, OperationKind, Outcome, Reason
from sluicegate_kafka.codec.metadata import named_metadata

METADATA, CREATE_TOPICS, CREATE_PARTITIONS = 3, 19, 37
NONE, UNKNOWN_TOPIC, POLICY_VIOLATION, THROTTLING = 0, 3, 44, 89
REFUSED = "Topic no may not be created. Use an existing one, or set policy allow_topic_creation to true."


def bench(**policies: bool | int) -> Bench:
    """Any topic but `no` may be created."""
    made = Bench()
    made.set_topic("no", **(policies or {"allow_topic_creation": False}))
    return made


def creation(version: int, **partitions: int) -> Any:
    """A CreateTopics request."""
    entity = full(request_schema(CREATE_TOPICS, version))
    topics = [
        replace(entity.topics[0], name=name, num_partitions=count, assignments=())
        for name, count in partitions.items()
    ]
    return replace(entity, topics=tuple(topics))


def created(version: int, *names: str) -> bytes:
    """The broker's response: it has created these topics."""
    entity = full(response_schema(CREATE_TOPICS, version))
    topics = [replace(entity.topics[0], name=name, error_code=ErrorCode.none) for name in names]
    return response(replace(entity, topics=tuple(topics)))


def outcome(frame: bytes, version: int, api_key: int = CREATE_TOPICS) -> dict[str, tuple[int, str | None]]:
    """Code and text by topic, as the client sees them."""
    correlation_id, entity = decode_response(frame, api_key, version)
    assert correlation_id == 1
    results = entity.topics if api_key == CREATE_TOPICS else entity.results
    return {each.name: (each.error_code.value, each.error_message) for each in results}


def text_of(found: tuple[int, str | None]) -> str:
    return str(found[1]).partition(" [")[0]


# -- on request -------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(2, 8))
def test_one_request_creates_what_it_may(version: int) -> None:
    wire = Wire(bench())
    asked = creation(version, a=1, no=1, b=2)
    wire.client_sends(request(asked))
    (forwarded,) = wire.forwarded()
    assert decode_request(forwarded, CREATE_TOPICS, version) == replace(
        asked, topics=(asked.topics[0], asked.topics[2])
    )
    wire.broker_sends(created(version, "a", "b"))
    (answer,) = wire.answered()
    found = outcome(answer, version)
    assert {name: code for name, (code, _) in found.items()} == {"a": NONE, "b": NONE, "no": POLICY_VIOLATION}
    assert text_of(found["no"]) == REFUSED


@pytest.mark.parametrize("version", range(2, 8))
def test_nothing_is_forwarded_of_what_is_refused_whole(version: int) -> None:
    wire = Wire(bench())
    wire.client_sends(request(creation(version, no=1)))
    assert wire.forwarded() == []
    found = outcome(wire.answered()[0], version)
    assert (found["no"][0], text_of(found["no"])) == (POLICY_VIOLATION, REFUSED)


@pytest.mark.parametrize("name", ["a", "x" * 300])
def test_what_nobody_limits_passes_as_it_is(name: str) -> None:
    wire = Wire(bench())
    for asked in (creation(7, **{name: 500}), enlargement(3, **{name: 500}), lookup(12, name)):
        wire.client_sends(frame := request(asked))
        assert wire.forwarded() == [frame[4:]]
    wire.broker_sends(answer := created(7, name))
    assert wire.answered() == [answer[4:]]


def test_an_exempt_principal_may_create_what_it_likes() -> None:
    wire = Wire(bench())
    wire.session.connection.accepted("User:admin", exempt=True)
    wire.client_sends(asked := request(creation(7, no=1)))
    assert wire.forwarded() == [asked[4:]]


@pytest.mark.parametrize(("partitions", "code"), [(-1, NONE), (3, NONE), (4, POLICY_VIOLATION)])
def test_a_topic_may_have_so_many_partitions(partitions: int, code: int) -> None:
    wire = Wire(bench(max_partitions=3))
    wire.client_sends(request(creation(7, no=partitions)))
    if code == NONE:
        assert len(wire.forwarded()) == 1
    else:
        assert outcome(wire.answered()[0], 7)["no"][0] == code


def test_partitions_count_that_are_assigned_one_by_one() -> None:
    wire = Wire(bench(max_partitions=1))
    asked = full(request_schema(CREATE_TOPICS, 7))
    topic = replace(asked.topics[0], name="no", num_partitions=-1)
    assert len(topic.assignments) == 2
    wire.client_sends(request(replace(asked, topics=(topic,))))
    assert "Current: 2, Limit: 1." in text_of(outcome(wire.answered()[0], 7)["no"])


# -- more partitions --------------------------------------------------------------------------------


def enlargement(version: int, **partitions: int) -> Any:
    """A CreatePartitions request; the brokers choose who gets them."""
    entity = full(request_schema(CREATE_PARTITIONS, version))
    topics = [
        replace(entity.topics[0], name=name, count=count, assignments=None)
        for name, count in partitions.items()
    ]
    return replace(entity, topics=tuple(topics))


@pytest.mark.parametrize("version", range(4))
def test_a_topic_gets_so_many_partitions(version: int) -> None:
    wire = Wire(bench(max_partitions=3, allow_topic_creation=False))
    asked = enlargement(version, a=50, no=4)
    wire.client_sends(request(asked))
    (forwarded,) = wire.forwarded()
    assert decode_request(forwarded, CREATE_PARTITIONS, version) == replace(asked, topics=asked.topics[:1])
    entity = full(response_schema(CREATE_PARTITIONS, version))
    result = replace(entity.results[0], name="a", error_code=ErrorCode.none)
    wire.broker_sends(response(replace(entity, results=(result,))))
    found = outcome(wire.answered()[0], version, CREATE_PARTITIONS)
    assert {name: code for name, (code, _) in found.items()} == {"a": NONE, "no": POLICY_VIOLATION}
    wire.client_sends(request(enlargement(version, no=4)))
    assert outcome(wire.answered()[0], version, CREATE_PARTITIONS)["no"][0] == POLICY_VIOLATION
    wire.client_sends(asked := request(enlargement(version, no=3)))
    assert wire.forwarded() == [asked[4:]]


# -- by first use -----------------------------------------------------------------------------------


def lookup(version: int, *names: str, creates: bool = True) -> Any:
    """A Metadata request."""
    entity = full(request_schema(METADATA, version))
    entity = replace(entity, topics=tuple(replace(entity.topics[0], name=name) for name in names))
    return replace(entity, allow_auto_topic_creation=creates) if version >= 4 else entity


def metadata(version: int, **codes: int) -> Any:
    """The broker's response."""
    entity = full(response_schema(METADATA, version))
    topics = [replace(entity.topics[0], name=n, error_code=ErrorCode(code)) for n, code in codes.items()]
    return replace(entity, topics=tuple(topics))


def codes_of(frame: bytes, version: int) -> dict[str, int]:
    """Codes by topic, as the client sees them."""
    correlation_id, entity = decode_response(frame, METADATA, version)
    assert correlation_id == 1
    assert len(entity.brokers) == 2
    return {topic.name: topic.error_code.value for topic in entity.topics}


@pytest.mark.parametrize("version", range(1, 14))
def test_a_lookup_creates_only_what_it_may(version: int) -> None:
    wire = Wire(bench())
    asked = lookup(version, "there", "no", "new")
    wire.client_sends(request(asked))
    (forwarded,) = wire.forwarded()
    sent = max(version, 4)
    seen = decode_request(forwarded, METADATA, sent)
    assert [topic.name for topic in seen.topics] == ["there", "no", "new"]
    assert seen.allow_auto_topic_creation is False
    if version >= 4:
        assert seen == replace(asked, allow_auto_topic_creation=False)
    wire.broker_sends(response(metadata(sent, there=NONE, no=UNKNOWN_TOPIC, new=UNKNOWN_TOPIC)))
    (created,) = wire.forwarded()
    creating = decode_request(created, METADATA, 4)
    assert ([topic.name for topic in creating.topics], creating.allow_auto_topic_creation) == (["new"], True)
    wire.wait(1)
    (answer,) = wire.answered()
    assert codes_of(answer, version) == {"there": NONE, "no": UNKNOWN_TOPIC, "new": UNKNOWN_TOPIC}
    wire.broker_sends(response(metadata(4, new=UNKNOWN_TOPIC), -848))
    assert wire.answered() == []


def test_a_topic_that_exists_is_not_created_again() -> None:
    decided: list[str] = []
    wire = Wire(Bench({}, [counting(decided)]))
    wire.client_sends(request(lookup(12, "a", "b")))
    wire.forwarded()
    wire.broker_sends(response(metadata(12, a=NONE, b=NONE)))
    assert decided == []
    assert wire.forwarded() == []


@pytest.mark.parametrize("asked", [lookup(12, "no", creates=False), lookup(12), lookup(12, "a")])
def test_a_lookup_that_creates_nothing_passes_as_it_is(asked: Any) -> None:
    wire = Wire(bench())
    wire.client_sends(frame := request(asked))
    assert wire.forwarded() == [frame[4:]]


def test_without_policies_on_creation_names_cost_no_gates() -> None:
    wire = Wire(Bench(max_publish_rate=1_000))
    names = {f"t{number}": 1 for number in range(3)}
    for asked in (lookup(12, *names), creation(5, **names)):
        wire.client_sends(frame := request(asked))
        assert wire.forwarded() == [frame[4:]]
    assert wire.shared.gates.compiled == 0


def test_a_policy_on_creation_that_comes_later_applies() -> None:
    made = Bench()
    wire = Wire(made)
    made.set_topic("no", allow_topic_creation=False)
    wire.client_sends(request(lookup(12, "no")))
    (forwarded,) = wire.forwarded()
    assert decode_request(forwarded, METADATA, 12).allow_auto_topic_creation is False


def test_a_lookup_too_old_to_ask_for_no_creation_is_not_served() -> None:
    wire = Wire(bench())
    wire.client_sends(request(lookup(0, "a")))
    assert len(wire.forwarded()) == 1
    wire.client_sends(request(lookup(0, "no")))
    assert wire.forwarded() == []
    assert "metadata version 0" in str(wire.commands)


def test_a_lookup_of_many_topics_waits_in_slices() -> None:
    names = [f"t{number}" for number in range(500)]
    wire = Wire(Bench(allow_topic_creation=False))
    wire.client_sends(named_metadata(names, "app", 1, creates=True))
    assert wire.take_turns() > 10
    (forwarded,) = wire.forwarded()
    assert forwarded == named_metadata(names, "app", 1, creates=False)[4:]
    wire.broker_sends(response(metadata(4, **dict.fromkeys(names, UNKNOWN_TOPIC))))
    assert wire.take_turns() > 3
    wire.wait(1)
    assert len(codes_of(wire.answered()[0], 4)) == 500
    assert wire.forwarded() == []


# -- policies of plugins ----------------------------------------------------------------------------


def counting(decided: list[str], action: Action = Action.REJECT) -> object:
    """A plugin that refuses each creation, or has it wait."""

    class Counting:
        @hookimpl
        def sluicegate_policy_checks(self) -> list[Check]:
            def check(op: Operation, now_ns: int) -> Decision:
                decided.append(op.topic)
                delay_ns = 1_000_000 if action is Action.DELAY else 0
                return Decision(action, (Reason("counting", Outcome.LIMIT_REACHED, "full"),), delay_ns)

            return [Check("counting", (OperationKind.CREATE_TOPIC,), check)]

    return Counting()


@pytest.mark.parametrize(("action", "code"), [(Action.REJECT, POLICY_VIOLATION), (Action.DELAY, THROTTLING)])
def test_a_check_of_a_plugin_is_asked(action: Action, code: int) -> None:
    decided: list[str] = []
    wire = Wire(Bench({}, [counting(decided, action)]))
    wire.client_sends(request(creation(7, a=1)))
    found = outcome(wire.answered()[0], 7)["a"]
    assert (found[0], text_of(found), decided) == (code, "full", ["a"])
    wire.client_sends(request(lookup(12, "b")))
    wire.forwarded()
    wire.broker_sends(response(metadata(12, b=UNKNOWN_TOPIC)))
    assert decided == ["a", "b"]
    assert wire.forwarded() == []
