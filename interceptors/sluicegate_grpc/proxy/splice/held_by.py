"""Where in the splice a stack tells what the event loop is busy with; see `sluicegate.engine.holders`."""

from collections.abc import Mapping
from typing import Any

from sluicegate.engine.holders import tell_by
from sluicegate_grpc.proxy.splice.frame_stream import FrameStream

_KINDS = ("data", "headers", "priority", "rst_stream", "settings", "push_promise", "ping", "goaway")
_KINDS_AFTER = ("window_update", "continuation")
_NAMES = dict(enumerate((*_KINDS, *_KINDS_AFTER)))


def _frames(variables: Mapping[str, Any]) -> Mapping[str, str]:
    return {"api": f"http2 {_NAMES.get(variables['kind'], 'unknown')}"}


def enter() -> None:
    """Register the splice's methods."""
    tell_by(FrameStream, "_frames", _frames)
