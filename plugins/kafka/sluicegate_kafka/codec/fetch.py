"""Fetch, versions 4 to 12: requests and responses."""

from sluicegate_kafka.codec.fetch_requests import (
    VERSIONS,
    FetchRequest,
    fetch_request_slices,
    scan_fetch_request,
)
from sluicegate_kafka.codec.fetch_responses import (
    FetchPartition,
    FetchResponse,
    FetchTopic,
    fetch_response_slices,
    rebuild_fetch_response,
    rebuilding_slices,
    scan_fetch_response,
)

__all__ = [
    "VERSIONS",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "fetch_request_slices",
    "fetch_response_slices",
    "rebuild_fetch_response",
    "rebuilding_slices",
    "scan_fetch_request",
    "scan_fetch_response",
]
