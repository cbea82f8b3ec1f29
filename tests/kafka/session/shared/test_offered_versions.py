"""ApiVersions responses are computed once and fit each client's request."""

from sluicegate_kafka.codec.api_keys import HIDDEN, READ
from sluicegate_kafka.codec.versions import restrict_api_versions
from sluicegate_kafka.session.shared import offered_versions
from sluicegate_kafka.session.shared.offered_versions import OfferedVersions


def versions(correlation_id: int, highest: int) -> bytes:
    """A broker's response without its length: one API, Metadata, up to this version."""
    head = correlation_id.to_bytes(4, "big") + bytes(2) + (1).to_bytes(4, "big")
    return head + (3).to_bytes(2, "big") + bytes(2) + highest.to_bytes(2, "big")


def test_each_client_gets_its_own_id_and_what_its_broker_offers() -> None:
    offered = OfferedVersions()
    for highest in (1, 2, 200):
        for correlation_id in (1, 2):
            frame = versions(correlation_id, highest)
            whole = offered.restricted(frame, 0)
            assert whole[4:] == restrict_api_versions(frame, 0, READ, HIDDEN)
            assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    assert len(offered._known) == 3


def test_memory_of_offered_versions_is_bounded() -> None:
    offered = OfferedVersions()
    for highest in range(200):
        offered.restricted(versions(1, highest), 0)
    assert len(offered._known) <= offered_versions._MOST
