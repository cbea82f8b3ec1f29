"""Maps calls to operations, and tracks attachments. No clock, no gRPC library.

All interceptors of one engine share one `Calls`. Its methods are not safe for threads: callers in several
threads hold a lock around each call. None of them waits.
"""

from sluicegate_grpc.semantics.calls.attach_call import Attaching, LostPlace
from sluicegate_grpc.semantics.calls.attachments import Attachments
from sluicegate_grpc.semantics.calls.calls import Calls
from sluicegate_grpc.semantics.calls.place import Caller, Id, Place, Position
from sluicegate_grpc.semantics.calls.publishing import UNNAMED, UNREAD
from sluicegate_grpc.semantics.calls.stream import Stream

__all__ = [
    "UNNAMED",
    "UNREAD",
    "Attaching",
    "Attachments",
    "Caller",
    "Calls",
    "Id",
    "LostPlace",
    "Place",
    "Position",
    "Stream",
]
