"""Names the work of the Kafka room that a stack shows; see `sluicegate.engine.holders`."""

from collections.abc import Mapping
from typing import Any

from sluicegate.engine.holders import tell_by
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.session.addressing import Addressing
from sluicegate_kafka.session.fetching.fetching import Fetching
from sluicegate_kafka.session.requests.sliced import Sliced, SlicedResponse
from sluicegate_kafka.session.responses import ResponseStream
from sluicegate_kafka.session.session import KafkaSession


def name_of(api_key: int) -> str:
    """The name of an API for the watchdog; unknown APIs share one name."""
    try:
        return f"kafka {ApiKey(api_key).name.lower()}"
    except ValueError:
        return "kafka unknown"


def _request(variables: Mapping[str, Any]) -> Mapping[str, str]:
    return {"api": name_of(variables["api_key"])}


def _slice(variables: Mapping[str, Any]) -> Mapping[str, str]:
    return {"api": name_of(variables["head"].api_key)}


def enter() -> None:
    """Register the methods of this package."""
    tell_by(KafkaSession, "_handle", _request)
    tell_by(KafkaSession, "_requests", _request)
    tell_by(ResponseStream, "_finish", lambda variables: {"work": "kafka responses"})
    tell_by(Sliced, "_go_on", _slice)
    tell_by(Fetching, "response", lambda variables: {"api": "kafka fetch response"})
    tell_by(SlicedResponse, "go_on", lambda variables: {"work": "kafka responses"})
    tell_by(Addressing, "_readdress", lambda variables: {"api": "kafka metadata response"})
