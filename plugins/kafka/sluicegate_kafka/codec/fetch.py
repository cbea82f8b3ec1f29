"""Fetch, versions 4 to 12: requests and responses."""

from sluicegate_kafka.codec.fetch_requests import (
    VERSIONS,
    FetchRequest,
    fetch_request_slices,
)
from sluicegate_kafka.codec.fetch_responses import (
    FetchPartition,
    FetchResponse,
    FetchTopic,
    fetch_response_slices,
    rebuilding_slices,
)

__all__ = [
    "VERSIONS",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "fetch_request_slices",
    "fetch_response_slices",
    "rebuilding_slices",
]
