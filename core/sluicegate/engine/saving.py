"""Tokens that a bucket saves for the operation that it holds longest, where operations do not queue.

A delivery is decided when a client asks, and it may never ask again. So deliveries have no queue that one of
them could block, but those that need little would always take the tokens before there are enough for one that
needs many. Hence that one saves half of the rate while it keeps asking, until there are as many as it needs.
This only ever refuses more: what the bucket admits has the same bound.
"""

from sluicegate.engine.wait_queue import Saver, WaitQueue
from sluicegate.model import Operation

_PART = 2
"""It saves this part of the rate: one half."""


def wait(queue: WaitQueue, op: Operation, now_ns: int) -> int:
    """How long until an operation would pass and leave what is saved; nothing is charged.

    :return: ns; 0 if it would pass now.
    """
    bucket, saver = queue.bucket, queue.saver
    if saver is None or saver.op is op or saver.yields_to(op, now_ns):
        return bucket.wait(op.messages, op.bytes, now_ns)
    elapsed = now_ns - saver.since_ns
    messages = min(saver.messages, bucket.message_capacity, elapsed * bucket.message_rate / _PART)
    nbytes = min(saver.bytes, bucket.byte_capacity, elapsed * bucket.byte_rate / _PART)
    return bucket.wait(op.messages, op.bytes, now_ns, messages, nbytes)


def refused(queue: WaitQueue, op: Operation, now_ns: int, *, is_short: bool) -> None:
    """An operation is refused: it goes on to save here, or begins to if it is held longest.

    :param is_short: False if it would have passed here, and another limit refused it.
    """
    saver = queue.saver
    if saver is not None and saver.op is op:
        saver.asks(now_ns)
    elif is_short and (saver is None or saver.yields_to(op, now_ns)):
        queue.saver = Saver(op, now_ns)


def passed(queue: WaitQueue, op: Operation, now_ns: int) -> None:
    """An operation is charged: if it saved here, it has what it needs."""
    saver = queue.saver
    if saver is not None and (saver.op is op or saver.is_gone(now_ns)):
        queue.saver = None
