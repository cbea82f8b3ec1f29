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
