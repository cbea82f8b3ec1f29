"""Long lists: a reader lets others have their turn for each thousand entries, and bounds their number."""

import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sluicegate_kafka.codec import (
    assignments,
    fetch_requests,
    fetch_responses,
    group_requests,
    group_responses,
)
from sluicegate_kafka.codec.addresses import rewrite_find_coordinator
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.committed import committed_offsets_slices
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.fetch_requests import MAX_ENTRIES
from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.group_requests import MAX_GROUP_REQUEST, MAX_NAMES
from sluicegate_kafka.codec.primitives import write_array_length, write_uvarint
from sluicegate_kafka.codec.quorum import without_listeners
from sluicegate_kafka.codec.slices import at_once

ID, TAGS = bytes(16), b"\0"


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def array(*entries: bytes) -> bytes:
    return struct.pack(">i", len(entries)) + b"".join(entries)


def compact(*entries: bytes) -> bytes:
    return write_uvarint(len(entries) + 1) + b"".join(entries)


def asked(api_key: ApiKey, version: int, body: bytes) -> tuple[bytes, Any]:
    """A request in an old version, and its head."""
    frame = struct.pack(">hhih", api_key, version, 1, -1) + body
    return frame, parse_request_head(frame)


def turns(slices: Iterator[None]) -> int:
    """How often a reader lets others have their turn."""
    return sum(1 for _ in slices)


def subscription(topics: int, version: int = 0) -> bytes:
    return struct.pack(">h", version) + array(*[text("t")] * topics)


def join(*metadata: bytes) -> Any:
    assignors = [text("range") + struct.pack(">i", len(each)) + each for each in metadata]
    body = text("g") + bytes(4) + text("m") + text("consumer") + array(*assignors)
    return group_requests.join_group_slices(*asked(ApiKey.JOIN_GROUP, 0, body))


def commit_body(*partitions: int) -> bytes:
    topics = [text("t") + array(*[struct.pack(">iq", 1, 5) + b"\xff\xff"] * count) for count in partitions]
    return text("g") + bytes(4) + text("m") + bytes(8) + array(*topics)


def commit(*partitions: int) -> Any:
    return group_requests.commit_slices(*asked(ApiKey.OFFSET_COMMIT, 2, commit_body(*partitions)))


def commit_to_topic(entries: int) -> Any:
    return commit(entries - 1)  # the topic counts as well


def committed(partitions: int) -> Any:
    entries = [struct.pack(">iqhh", 1, 5, -1, 0)] * (partitions - 1)  # the topic counts as well
    return committed_offsets_slices(bytes(4) + array(text("t") + array(*entries)), 1, "g")


def committed_to_topics(topics: int) -> Any:
    return committed_offsets_slices(bytes(4) + array(*[text("t") + array()] * topics), 1, "g")


def committed_by_groups(entries: int) -> Any:
    one = b"\2g" + compact(b"\2t" + compact() + TAGS) + bytes(2) + TAGS
    last = b"\2g" + compact() + bytes(2) + TAGS
    groups = [one] * (entries // 2) + [last] * (entries % 2)
    return committed_offsets_slices(bytes(5 + 4) + compact(*groups) + TAGS, 8, "")


def assignors(count: int) -> Any:
    return join(*[b""] * count)


def quorum_topics(topics: int) -> Any:
    one = b"\2t" + compact() + TAGS
    return without_listeners(bytes(5 + 2 + 1) + compact(*[one] * topics) + compact() + TAGS, 2)


def quorum_partitions(partitions: int) -> Any:
    one = bytes(4 + 2 + 1 + 4 + 4 + 8) + compact() + compact() + TAGS
    topic = b"\2t" + compact(*[one] * (partitions - 1)) + TAGS
    return without_listeners(bytes(5 + 2 + 1) + compact(topic) + compact() + TAGS, 2)


def coordinators(fives: int) -> Any:
    one = b"\2g" + struct.pack(">i", 1) + b"\2h" + struct.pack(">ih", 9092, 0) + b"\0" + TAGS
    frame = bytes(5 + 4) + compact(*[one] * (fives // 5)) + TAGS
    return rewrite_find_coordinator(frame, 4, lambda nodes: nodes)


def refused(partitions: int) -> Any:
    entries = [struct.pack(">ih", 1, 44)] * (partitions - 1)  # the topic counts as well
    frame = bytes(4) + array(text("t") + array(*entries))
    return group_responses.refused_topics_slices(frame, ApiKey.OFFSET_COMMIT, 2)


def assigned(topics: int, partitions: int = 0) -> Any:
    topic = text("t") + array(*[bytes(4)] * partitions)
    return assignments.assignment_slices(b"\0\0" + array(*[topic] * topics))


def assigned_by_heartbeat(topics: int) -> Any:
    body = bytes(4 + 2) + b"\0\0" + bytes(4 + 4) + b"\1" + compact(*[ID + b"\1" + TAGS] * topics)
    return assignments.heartbeat_assignment_slices(bytes(5) + body + TAGS + TAGS, 0)


def named(topics: int, partitions: int = 0) -> Any:
    entries = [bytes(2 + 4 + 4 + 4) + b"\1\1\1" + TAGS] * partitions
    one = bytes(2) + b"\2t" + ID + b"\0" + compact(*entries) + bytes(4) + TAGS
    return assignments.topic_names_slices(bytes(5 + 4) + b"\1\0" + bytes(4) + compact(*[one] * topics) + TAGS)


def fetched(*partitions: int) -> Any:
    topics = [text("t") + array(*[struct.pack(">iqi", 1, 5, 100)] * count) for count in partitions]
    return fetch_requests.fetch_request_slices(*asked(ApiKey.FETCH, 4, bytes(17) + array(*topics)))


PARTITION = struct.pack(">ihqqii", 1, 0, 0, 0, -1, 2) + b"rr"


def response(*partitions: int) -> bytes:
    return bytes(8) + array(*[text("t") + array(*[PARTITION] * count) for count in partitions])


def answered(*partitions: int) -> Any:
    return fetch_responses.fetch_response_slices(response(*partitions), 4)


@pytest.mark.parametrize(
    "read",
    [
        commit_to_topic, committed, committed_to_topics, committed_by_groups, refused, assigned, assignors,
        assigned_by_heartbeat, named, quorum_topics, quorum_partitions, coordinators,
    ],
    ids=lambda read: read.__name__,
)  # fmt: skip
@pytest.mark.parametrize(("entries", "slices"), [(999, 0), (1_000, 1), (1_999, 1), (2_000, 2)])
def test_entries_are_read_in_slices(read: Callable[[int], Iterator[None]], entries: int, slices: int) -> None:
    assert turns(read(entries)) == slices


@pytest.mark.parametrize(("topics", "slices"), [(1_000, 0), (1_001, 1), (2_000, 1), (2_001, 2)])
def test_topics_of_a_subscription_are_read_in_slices(topics: int, slices: int) -> None:
    assert turns(join(subscription(topics))) == slices


def test_partitions_count_four_times_where_each_has_three_lists() -> None:
    assert turns(named(10, 25)) == 1  # 101 each
    assert turns(named(9, 25)) == 0
    assert turns(named(20, 25)) == 2


@pytest.mark.parametrize("read", [fetched, answered], ids=["request", "response"])
@pytest.mark.parametrize(
    ("partitions", "slices"),
    [
        ([998], 0), ([999], 1), ([1_000], 1), ([1_001], 2), ([2_500], 3), ([499, 498], 0), ([499, 499], 1),
        ([0] * 999, 0), ([0] * 1_000, 1), ([0] * 1_999, 1), ([0] * 2_000, 2),
    ],
    ids=range(11),
)  # fmt: skip
def test_partitions_to_fetch_are_read_in_slices(
    read: Callable[..., Iterator[None]], partitions: list[int], slices: int
) -> None:
    assert turns(read(*partitions)) == slices


@pytest.mark.parametrize(
    ("partitions", "slices"),
    [([998], 0), ([999], 1), ([1_000], 1), ([1_001], 2), ([2_001], 4), ([600, 600], 1)],
)
def test_a_commit_is_refused_in_slices(partitions: list[int], slices: int) -> None:
    """First it is read again, then the answer is made."""
    asked_for = asked(ApiKey.OFFSET_COMMIT, 2, commit_body(*partitions))
    assert turns(group_responses.refuse_commit(*asked_for, 44)) == slices


@pytest.mark.parametrize(("cuts", "slices"), [(999, 0), (1_000, 1), (2_000, 2)])
def test_a_response_is_rebuilt_in_slices(cuts: int, slices: int) -> None:
    frame = response(2_500)
    found = at_once(fetch_responses.fetch_response_slices(frame, 4))
    starts = {(0, place): found.topics[0].partitions[place].records_start for place in range(cuts)}
    assert turns(fetch_responses.rebuilding_slices(frame, found, starts, {})) == slices
    assert turns(fetch_responses.rebuilding_slices(frame, found, {}, dict.fromkeys(starts, 29))) == slices


def test_the_topics_of_all_assignors_are_bounded() -> None:
    most = 2 * MAX_NAMES
    assert at_once(join(subscription(most))).topics == ("t",)
    text_ = f"{most + 1} topics for one more assignor, expected up to {most}"
    with pytest.raises(ProtocolError, match=text_):
        at_once(join(subscription(most + 1)))
    at_once(join(subscription(most - 5), subscription(5)))
    with pytest.raises(ProtocolError, match="6 topics for one more assignor, expected up to 5"):
        at_once(join(subscription(most - 5), subscription(6)))


def test_assignors_with_the_same_topics_are_read_once() -> None:
    one = subscription(2 * MAX_NAMES)
    assert at_once(join(one, one + b"\0\0\0\1x", subscription(2 * MAX_NAMES, version=3))).topics == ("t",)
    assert turns(join(one, one)) == 19


@pytest.mark.parametrize(("partitions", "slices"), [(998, 0), (999, 1), (1_000, 1), (1_001, 2), (2_001, 3)])
def test_partitions_of_an_assignment_are_read_in_slices(partitions: int, slices: int) -> None:
    assert turns(assigned(1, partitions)) == slices


def test_the_partitions_of_an_assignment_are_bounded() -> None:
    most = assignments.MAX_PARTITIONS
    at_once(assigned(most // 10, 9))
    for topics, partitions in ((1, most), (most // 10 + 1, 9), (most + 1, 0)):
        with pytest.raises(ProtocolError, match=f"more than {most} partitions"):
            at_once(assigned(topics, partitions))


def test_the_topics_of_a_commit_are_bounded() -> None:
    assert len(at_once(commit(*[0] * MAX_NAMES)).topics) == MAX_NAMES
    with pytest.raises(ProtocolError, match=f"over {MAX_NAMES} topics in one request"):
        at_once(commit(*[0] * (MAX_NAMES + 1)))


def test_the_members_that_leave_together_are_bounded() -> None:
    def leave(members: int) -> Any:
        body = text("g") + array(*[text("m") + b"\xff\xff"] * members)
        return group_requests.read_leave_group(*asked(ApiKey.LEAVE_GROUP, 3, body))

    assert len(leave(MAX_NAMES)[1]) == MAX_NAMES
    with pytest.raises(ProtocolError, match=f"{MAX_NAMES + 1} members in one request"):
        leave(MAX_NAMES + 1)


def test_the_topics_of_a_heartbeat_are_bounded() -> None:
    def heartbeat(topics: int) -> Any:
        body = b"\0" + b"\2g\2m" + bytes(4) + b"\0\0" + bytes(4) + compact(*[b"\2t"] * topics) + b"\0\0\0"
        return group_requests.read_consumer_group_heartbeat(*asked(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, body))

    assert len(heartbeat(MAX_NAMES).topics) == MAX_NAMES
    with pytest.raises(
        ProtocolError, match=f"{MAX_NAMES + 1} topics in one request, expected up to {MAX_NAMES}"
    ):
        heartbeat(MAX_NAMES + 1)


def test_a_group_request_may_be_as_large_as_the_limit() -> None:
    body = text("g") + text("m")
    frame, head = asked(ApiKey.LEAVE_GROUP, 0, body)
    padded = frame + bytes(MAX_GROUP_REQUEST - len(frame) + 1)
    assert group_requests.read_leave_group(padded, head._replace(end=MAX_GROUP_REQUEST)) == ("g", ("m",))
    with pytest.raises(ProtocolError, match=f"a group request of {MAX_GROUP_REQUEST + 1} bytes"):
        group_requests.read_leave_group(padded, head._replace(end=MAX_GROUP_REQUEST + 1))


def test_a_fetch_may_have_as_many_entries_as_the_limit() -> None:
    def request(*claimed: int) -> Any:
        topics = b"".join(b"\2t" + write_array_length(count, flexible=True) for count in claimed[:1])
        body = b"\0" + bytes(17 + 8) + write_array_length(len(claimed), flexible=True) + topics
        return fetch_requests.fetch_request_slices(*asked(ApiKey.FETCH, 12, body + b"\1" * MAX_ENTRIES))

    with pytest.raises(ProtocolError, match="a truncated Fetch request"):
        at_once(request(MAX_ENTRIES - 1))
    with pytest.raises(ProtocolError, match=f"more than {MAX_ENTRIES} partitions in a Fetch request"):
        at_once(request(MAX_ENTRIES))


@pytest.mark.parametrize("tags", [b"\0", b"\1\5\2hi"])
def test_tagged_fields_of_partitions_are_skipped(tags: bytes) -> None:
    partition = struct.pack(">iiqiqi", 4, -1, 77, -1, 0, 100) + tags
    topics = compact(b"\2t" + compact(partition, partition) + TAGS)
    body = b"\0" + bytes(17 + 8) + topics + b"\1\1" + TAGS
    request = at_once(fetch_requests.fetch_request_slices(*asked(ApiKey.FETCH, 12, body)))
    assert request.topics == [("t", [(4, 77), (4, 77)])]
