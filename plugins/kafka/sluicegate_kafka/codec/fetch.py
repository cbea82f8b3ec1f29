"""Fetch, versions 4 to 12: requests and responses."""

from sluicegate_kafka.codec.fetch_requests import VERSIONS, FetchRequest, scan_fetch_request
from sluicegate_kafka.codec.fetch_responses import (
    FetchPartition,
    FetchResponse,
    FetchTopic,
    rebuild_fetch_response,
    scan_fetch_response,
)

__all__ = [
    "VERSIONS",
    "FetchPartition",
    "FetchRequest",
    "FetchResponse",
    "FetchTopic",
    "rebuild_fetch_response",
    "scan_fetch_request",
    "scan_fetch_response",
]
