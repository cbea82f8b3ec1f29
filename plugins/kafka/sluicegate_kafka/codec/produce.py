"""Produce, versions 3 to 12: requests and responses."""

from sluicegate_kafka.codec.produce_requests import (
    VERSIONS,
    Inspected,
    ProduceRequest,
    ProduceTopic,
    scan_plain,
    scan_produce,
    scan_slices,
    subset_produce,
)
from sluicegate_kafka.codec.produce_responses import (
    Refused,
    has_node_endpoints,
    merge_produce_responses,
    plain_response_length,
    refusal_response,
    scan_produce_response,
)

__all__ = [
    "VERSIONS",
    "Inspected",
    "ProduceRequest",
    "ProduceTopic",
    "Refused",
    "has_node_endpoints",
    "merge_produce_responses",
    "plain_response_length",
    "refusal_response",
    "scan_plain",
    "scan_produce",
    "scan_produce_response",
    "scan_slices",
    "subset_produce",
]
