"""Attachments: one place for each key, however many connections refer to it."""

import pytest

from sluicegate.engine.attachments import Attachments


@pytest.fixture
def attachments() -> Attachments:
    return Attachments()


@pytest.mark.seed("S1-033", "S1-043")
def test_counts_keys_and_releases_with_the_last_connection(attachments: Attachments) -> None:
    attachments.attach("producer 1", "connection a")
    attachments.attach("producer 1", "connection b")
    attachments.attach("producer 1", "connection b")
    attachments.attach("producer 2", "connection a")

    assert len(attachments) == 2
    assert "producer 1" in attachments
    assert attachments.detach("producer 1", "connection b") is False
    assert len(attachments) == 2
    assert attachments.detach("producer 1", "connection a") is True
    assert list(attachments) == ["producer 2"]


def test_detaching_a_missing_attachment_changes_nothing(attachments: Attachments) -> None:
    attachments.attach("producer", "a")

    assert attachments.detach("producer", "b") is False
    assert attachments.detach("stranger", "a") is False
    assert len(attachments) == 1


@pytest.mark.parametrize("connections", [1, 8, 9, 100])
def test_many_connections_of_one_attachment_leave_one_by_one(
    attachments: Attachments, connections: int
) -> None:
    for number in range(connections):
        attachments.attach("producer", f"{number}")
        attachments.attach("producer", f"{number}")
    for number in range(connections - 1):
        assert attachments.detach("producer", f"{number}") is False
        assert attachments.detach("producer", f"{number}") is False
    attachments.move("producer", "other", f"{connections - 1}")
    assert list(attachments) == ["other"]
    assert attachments.detach("other", f"{connections - 1}") is True
    assert not attachments


def test_leaving_is_cheap_however_many_connections_an_attachment_has(attachments: Attachments) -> None:
    class Name(str):
        compared = 0

        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            Name.compared += 1
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    names = [Name(number) for number in range(1_000)]
    for name in names:
        attachments.attach("producer", name)
    Name.compared = 0
    for name in names:
        attachments.detach("producer", Name(name))
    assert Name.compared <= 10 * len(names)


def test_release_removes_all_connections(attachments: Attachments) -> None:
    attachments.attach("producer", "a")
    attachments.attach("producer", "b")

    assert attachments.release("producer") is True
    assert attachments.release("producer") is False
    assert not attachments


def test_rename_keeps_connections_and_joins_an_existing_key(attachments: Attachments) -> None:
    attachments.attach("client x", "a")
    attachments.attach("id 7", "b")

    attachments.rename("client x", "id 7")

    assert list(attachments) == ["id 7"]
    assert attachments.detach("id 7", "a") is False
    assert attachments.detach("id 7", "b") is True


def test_rename_of_nothing_or_to_itself_changes_nothing(attachments: Attachments) -> None:
    attachments.attach("client x", "a")

    attachments.rename("client x", "client x")
    attachments.rename("stranger", "id 7")

    assert list(attachments) == ["client x"]


def test_moving_a_connection_leaves_the_others_where_they_are(attachments: Attachments) -> None:
    attachments.attach("client #2 x", "a")
    attachments.attach("client #2 x", "b")

    attachments.move("client #2 x", "client x", "a")
    assert list(attachments) == ["client #2 x", "client x"]

    attachments.move("client #2 x", "client x", "b")
    assert list(attachments) == ["client x"]


def test_moving_a_missing_attachment_changes_nothing(attachments: Attachments) -> None:
    attachments.attach("client x", "a")

    attachments.move("client x", "client #2 x", "b")
    attachments.move("stranger", "client #2 x", "a")
    attachments.move("client x", "client x", "a")

    assert list(attachments) == ["client x"]
