"""Every reader of the codec with what it reads, for tests that feed malformed bytes."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sluicegate_kafka.codec import (
    addresses,
    assignments,
    committed,
    fetch_requests,
    fetch_responses,
    group_requests,
    group_responses,
    produce_parts,
    produce_requests,
    produce_responses,
    quorum,
    sasl,
    versions,
)
from sluicegate_kafka.codec.api_keys import ApiKey, Versions
from sluicegate_kafka.codec.frames import RequestHead, parse_request_head
from sluicegate_kafka.codec.record_walk import Slice, largest_message
from sluicegate_kafka.codec.records import walk_batches
from sluicegate_kafka.codec.slices import Slices, at_once


class Target(NamedTuple):
    """One reader."""

    api_key: ApiKey
    versions: range
    request: bool
    feed: Callable[[bytes, int], object]
    """Reads a frame of that version."""


def _advertised(nodes: Mapping[int, tuple[str, int]]) -> Mapping[int, tuple[str, int]]:
    return {node: ("gate.example", 9000 + node % 1000) for node in nodes if node % 7}


def _request(read: Callable[[bytes, RequestHead], object], api_key: ApiKey) -> Callable[[bytes, int], object]:
    def feed(frame: bytes, version: int) -> object:
        head = parse_request_head(frame)
        return read(frame, head._replace(api_key=api_key, version=version))

    return feed


def _produce(frame: bytes, head: RequestHead) -> object:
    request = produce_requests.scan_produce(frame, head)
    assert request.head.end == len(frame)
    for topic in request.topics:
        assert 0 <= topic.start <= topic.end <= len(frame)
        for start, end in topic.records:
            assert topic.start <= start <= end <= topic.end
    kept = produce_parts.subset_produce(request, range(len(request.topics)))
    for topic in request.topics:
        for start, end in topic.records:
            assert at_once(largest_message(frame, [(start, end)], 1, Slice())) <= end - start
    return kept


def _whole(slices: Callable[..., Slices[Any]]) -> Callable[..., object]:
    return lambda *arguments: at_once(slices(*arguments))


def _fetch_response(frame: bytes, version: int) -> object:
    response = at_once(fetch_responses.fetch_response_slices(frame, version))
    cuts = {}
    for topic_place, topic in enumerate(response.topics):
        for place, part in enumerate(topic.partitions):
            assert part.entry_start < part.records_start <= part.records_end <= len(frame)
            cuts[topic_place, place] = part.records_start
    emptied = at_once(fetch_responses.rebuilding_slices(frame, response, cuts, {}))
    again = at_once(fetch_responses.fetch_response_slices(emptied[4:], version))
    assert all(part.records_start == part.records_end for topic in again.topics for part in topic.partitions)
    for topic in response.topics:
        for part in topic.partitions:
            walk_batches(frame, part.records_start, part.records_end)
    return again


def _produce_response(frame: bytes, version: int) -> object:
    produce_responses.has_node_endpoints(frame, version)
    produce_responses.appended(frame, version)
    produce_responses.unauthorized(frame, version)
    addresses.rewrite_node_endpoints(frame, version, _advertised)
    return produce_responses.merge_produce_responses(version, 1, [frame, frame], [], 0)


def _metadata(frame: bytes, version: int) -> object:
    return addresses.rewrite_metadata(frame, version, _advertised)


def _synced(frame: bytes, version: int) -> object:
    error, assignment = assignments.sync_group_result(frame, version)
    return error, at_once(assignments.assignment_slices(assignment))


def _commit(read: Any, refuse: Any) -> Callable[[bytes, RequestHead], object]:
    def feed(frame: bytes, head: RequestHead) -> object:
        read(frame, head)
        return refuse(frame, head, 44)

    return feed


def _of(key: ApiKey, low: int, high: int, read: Callable[[bytes, RequestHead], object]) -> Target:
    return Target(key, range(low, high + 1), True, _request(read, key))


TARGETS = [
    _of(ApiKey.PRODUCE, 3, 12, _produce),
    _of(ApiKey.FETCH, 4, 12, _whole(fetch_requests.fetch_request_slices)),
    _of(ApiKey.JOIN_GROUP, 0, 9, _whole(group_requests.join_group_slices)),
    _of(ApiKey.LEAVE_GROUP, 0, 5, group_requests.read_leave_group),
    _of(ApiKey.SYNC_GROUP, 0, 5, assignments.read_member),
    _of(ApiKey.OFFSET_FETCH, 1, 9, committed.offset_fetch_group),
    _of(ApiKey.HEARTBEAT, 0, 4, assignments.read_member),
    _of(
        ApiKey.OFFSET_COMMIT,
        2,
        9,
        _commit(_whole(group_requests.commit_slices), _whole(group_responses.refuse_commit)),
    ),
    _of(
        ApiKey.TXN_OFFSET_COMMIT,
        0,
        5,
        _commit(_whole(group_requests.commit_slices), _whole(group_responses.refuse_commit)),
    ),
    _of(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, group_requests.read_consumer_group_heartbeat),
    _of(ApiKey.SASL_HANDSHAKE, 0, 1, sasl.sasl_mechanism),
    _of(ApiKey.SASL_AUTHENTICATE, 0, 2, sasl.sasl_token),
    _of(ApiKey.API_VERSIONS, 0, 4, versions.client_software),
    Target(ApiKey.PRODUCE, range(3, 13), False, _produce_response),
    Target(ApiKey.FETCH, range(4, 13), False, _fetch_response),
    Target(ApiKey.METADATA, range(14), False, _metadata),
    Target(
        ApiKey.FIND_COORDINATOR,
        range(7),
        False,
        lambda frame, version: at_once(addresses.rewrite_find_coordinator(frame, version, _advertised)),
    ),
    Target(
        ApiKey.DESCRIBE_CLUSTER,
        range(3),
        False,
        lambda frame, version: addresses.rewrite_describe_cluster(frame, version, _advertised),
    ),
    Target(ApiKey.DESCRIBE_QUORUM, range(3), False, _whole(quorum.without_listeners)),
    Target(
        ApiKey.API_VERSIONS,
        range(5),
        False,
        lambda frame, version: versions.restrict_api_versions(frame, version, {0: Versions(3, 12, 9)}, {1}),
    ),
    Target(ApiKey.JOIN_GROUP, range(10), False, group_responses.join_group_result),
    Target(ApiKey.HEARTBEAT, range(5), False, group_responses.heartbeat_error),
    Target(
        ApiKey.LEAVE_GROUP,
        range(6),
        False,
        lambda frame, version: group_responses.members_left(frame, version, ("m",)),
    ),
    Target(
        ApiKey.OFFSET_FETCH,
        range(1, 10),
        False,
        lambda frame, version: at_once(committed.committed_offsets_slices(frame, version, "g")),
    ),
    Target(ApiKey.SYNC_GROUP, range(6), False, _synced),
    Target(
        ApiKey.OFFSET_COMMIT,
        range(2, 10),
        False,
        lambda frame, version: at_once(
            group_responses.refused_topics_slices(frame, ApiKey.OFFSET_COMMIT, version)
        ),
    ),
    Target(
        ApiKey.TXN_OFFSET_COMMIT,
        range(6),
        False,
        lambda frame, version: at_once(
            group_responses.refused_topics_slices(frame, ApiKey.TXN_OFFSET_COMMIT, version)
        ),
    ),
    Target(ApiKey.CONSUMER_GROUP_HEARTBEAT, range(2), False, group_responses.consumer_group_heartbeat_result),
    Target(ApiKey.CONSUMER_GROUP_HEARTBEAT, range(2), False, _whole(assignments.heartbeat_assignment_slices)),
    Target(
        ApiKey.METADATA,
        range(12, 13),
        False,
        lambda frame, version: at_once(assignments.topic_names_slices(frame)),
    ),
    Target(ApiKey.SASL_AUTHENTICATE, range(3), False, sasl.sasl_authenticate_result),
]
