"""Objects of sessions are small, and only their own module writes their attributes."""

from pathlib import Path

from tests.house.attributes import Rooms
from tests.house.test_names import ROOT

SESSIONS = [
    ROOT / "core/sluicegate/sessions",
    ROOT / "interceptors/sluicegate_grpc/proxy/splice",
    ROOT / "interceptors/sluicegate_grpc/semantics/calls",
    ROOT / "plugins/kafka/sluicegate_kafka/session",
    ROOT / "plugins/pulsar/sluicegate_pulsar/session",
]
# Their objects are written by sessions by design: an operation is filled in for each message.
OTHERS = [
    ROOT / "core/sluicegate/engine",
    ROOT / "core/sluicegate/model",
    ROOT / "plugins/kafka/sluicegate_kafka/codec",
    ROOT / "plugins/pulsar/sluicegate_pulsar/codec",
]
MOST_ATTRIBUTES = 12
# Attributes that another module writes, and why: at most ten.
WRITTEN_FROM_ELSEWHERE = {
    "Call.has_ended": "a call's end is seen by the side that reads it",
    "Call.has_response": "as its end",
    "Flow.window": "for each DATA frame; a method would cost as much as the rest",
    "Place.publishing": "a method would lead each publish through one more file",
    "Place.seen_ns": "for each publish",
    "Producer.answered": "for each receipt: a method costs a fifth of it",
    "Producer.sent": "for each SEND",
}


def test_only_the_module_of_a_class_writes_its_attributes() -> None:
    written = {f"{each.owner}.{each.attribute}" for each in Rooms(SESSIONS, OTHERS).writes()}
    assert written == set(WRITTEN_FROM_ELSEWHERE)
    assert len(WRITTEN_FROM_ELSEWHERE) <= 10


def test_no_object_of_a_session_has_many_attributes() -> None:
    sizes = Rooms(SESSIONS).sizes()
    assert {name: size for name, size in sizes.items() if size > MOST_ATTRIBUTES} == {}


def test_a_write_from_elsewhere_and_attributes_of_bases_are_found(tmp_path: Path) -> None:
    room = tmp_path / "sluicegate_planted"
    room.mkdir()
    (room / "owner.py").write_text(
        "class Base:\n    def __init__(self) -> None:\n        self.first = 0\n\n"
        "class Owner(Base):\n    second: int\n\n    def use(self, of: Base) -> None:\n        of.first = 1\n"
    )
    (room / "user.py").write_text(
        "class User:\n    def __init__(self, owner: Owner) -> None:\n        self._owner = owner\n\n"
        "    def use(self) -> None:\n        self._owner.first = 2\n        self._owner.second += 1\n\n"
        "def unnamed(each):\n    each.second = 3\n    each.messages = 4\n"
    )
    rooms = Rooms([room])
    assert sorted({(each.module, each.owner, each.attribute) for each in rooms.writes()}) == [
        ("user.py", "Owner", "first"),
        ("user.py", "Owner", "second"),
    ]
    assert rooms.sizes() == {
        "sluicegate_planted Base": 1,
        "sluicegate_planted Owner": 2,
        "sluicegate_planted User": 1,
    }
