"""Makes gRPC methods of plain functions: a refusal becomes a status."""

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

import grpc.aio
from google.protobuf.message import Message

from sluicegate_danube.reference.broker_errors import RefusedError
from sluicegate_danube.reference.broker_settings import MAX_MESSAGE_BYTES

Self = TypeVar("Self")
Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer")
Context = grpc.aio.ServicerContext[Any, Any]
ROUTE_HEADER = "x-danube-broker-url"
"""Names the broker that a call is meant for, where clients come through a proxy."""


def answering(
    method: Callable[[Self, Request, Context], Answer],
) -> Callable[[Self, Request, Context], Awaitable[Answer]]:
    """A gRPC method that calls a function, which answers at once or raises RefusedError."""

    @wraps(method)
    async def answer(self: Self, request: Request, context: Context) -> Answer:
        size = request.ByteSize()
        if size > MAX_MESSAGE_BYTES:
            text = f"message of {size} bytes is too long: expected at most {MAX_MESSAGE_BYTES}"
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, text)
        try:
            return method(self, request, context)
        except RefusedError as error:
            await context.abort(error.code, error.text)

    return answer
