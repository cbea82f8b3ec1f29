"""Recreates producers at the new owner of their topic, in the name of the client that asks for it."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError, Message

from sluicegate.broker.broker_ports import Address, BrokerPorts, shown
from sluicegate.model.methods import Path
from sluicegate.pacing.asked_once import AskedOnce
from sluicegate_danube.channels import connect
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.lookup import Lookup
from sluicegate_danube.method_map import METHOD_MAP, PRODUCERS, SEND_MESSAGE, TOPIC_LOOKUP
from sluicegate_danube.sluicegate_danube_pb2 import (
    HealthCheckRequest,
    ProducerRequest,
    ProducerResponse,
    StreamMessage,
    TopicLookupRequest,
)
from sluicegate_grpc.proxy.edits import Edits
from sluicegate_grpc.proxy.splice.resuming import NO_OWNER, Resume, Resumed
from sluicegate_grpc.semantics.status import UNAVAILABLE, Refusal

if TYPE_CHECKING:
    import grpc

log = logging.getLogger("sluicegate.danube")

_CREATE = PRODUCERS + "CreateProducer"
_CALL_S = 2.0
_PAUSE_S = 0.1
_ANSWERED_BY = 0.95
"""Part of `max_hold` after which clients are told that their topic has no owner."""
_AT_ONCE = 32
_MOST = 10_000
_TOO_MANY = Refusal(UNAVAILABLE, "Too many producers are created anew. Send the message again.")


@dataclass(frozen=True, slots=True)
class _Wanted:
    topic: str
    name: str
    metadata: Sequence[tuple[str, str]]


class _NotYetError(Exception):
    """Try again: the topic has no owner, or it cannot be reached."""


class ProducerResumer:
    """Answers `splice.resuming.Resume` for Danube.

    It asks brokers for the topic's owner until there is one, for `max_hold` at most, and creates a producer
    of the same name there. What a broker answers otherwise ends it: the client then gets its own answer.

    :param lookup: reads answers of lookups; it knows which brokers there are.
    :param is_reliable: tells how a topic's messages are dispatched, as far as is known.
    """

    def __init__(
        self,
        config: DanubeConfig,
        brokers: BrokerPorts,
        lookup: Lookup,
        is_reliable: Callable[[str], bool],
    ) -> None:
        self._config = config
        self._brokers = brokers
        self._lookup = lookup
        self._is_reliable = is_reliable
        self._edits = Edits(config.request_metadata.put, frozenset(config.request_metadata.take))
        self._under_way: AskedOnce[Resumed] = AskedOnce()
        self._slots = asyncio.Semaphore(_AT_ONCE)
        # The gateway gives a question up after `max_hold`, and would count it as failed.
        self._longest_s = _ANSWERED_BY * config.max_hold / 1000
        self._is_tls = config.tls.broker is not None

    async def resume(self, question: Resume) -> Resumed:
        """Create a producer; once for all who ask for it meanwhile."""
        producer = question.producer
        if producer not in self._under_way and len(self._under_way) >= _MOST:
            return Resumed(refusal=_TOO_MANY)
        return await self._under_way.ask(producer, partial(self._resume, question))

    def cancel(self) -> None:
        """End what is under way."""
        self._under_way.cancel()

    async def _resume(self, question: Resume) -> Resumed:
        metadata = [("authorization", question.authorization)] if question.authorization else []
        wanted = _Wanted(question.topic, question.name, self._edits.apply(metadata))
        try:
            async with asyncio.timeout(self._longest_s), self._slots:
                created = await self._created(wanted)
        except TimeoutError:
            return Resumed(refusal=NO_OWNER)
        except Exception as error:  # noqa: BLE001 - the client gets the broker's own answer then
            log.warning("producer %s of topic %s cannot be resumed: %s", wanted.name, wanted.topic, error)
            return Resumed()
        if created:
            log.info("producer %s of topic %s was created at its new owner", wanted.name, wanted.topic)
        return Resumed(created)

    async def _created(self, wanted: _Wanted) -> int:
        """The new id; 0 if the producer cannot be created."""
        while True:
            for broker in self._brokers.known:
                try:
                    owner = await self._owner(broker, wanted)
                    return await self._create(owner, wanted) if owner is not None else 0
                except _NotYetError:
                    continue
            await asyncio.sleep(_PAUSE_S)

    async def _owner(self, broker: Address, wanted: _Wanted) -> Address | None:
        """The topic's owner, as a broker says; None if it has none that the gateway may dial."""
        request = TopicLookupRequest(request_id=1, topic=wanted.topic)
        status, response = await self._call(broker, TOPIC_LOOKUP, request, wanted)
        owner = self._lookup.owner(response) if status is None else ""
        return self._brokers.target(owner) if owner else None

    async def _create(self, owner: Address, wanted: _Wanted) -> int:
        import grpc

        reliable = self._is_reliable(wanted.topic)
        for dispatch in (reliable, not reliable):
            request = ProducerRequest(
                request_id=1,
                producer_name=wanted.name,
                topic_name=wanted.topic,
                dispatch_strategy=int(dispatch),
            )
            status, response = await self._call(owner, _CREATE, request, wanted)
            if status is None:
                return ProducerResponse.FromString(response).producer_id
            if status is not grpc.StatusCode.FAILED_PRECONDITION:
                return 0
        return 0

    async def _call(
        self, broker: Address, path: str, request: Message, wanted: _Wanted
    ) -> "tuple[grpc.StatusCode | None, bytes]":
        """Call a broker.

        :return: None and its answer, or what it refuses with.
        :raises _NotYetError: if it is unreachable, or asks to retry.
        """
        import grpc.aio

        async with connect(self._config, shown(broker), is_tls=self._is_tls) as channel:
            try:
                call: Callable[..., Awaitable[bytes]] = channel.unary_unary(path)
                response = await call(
                    request.SerializeToString(), timeout=_CALL_S, metadata=tuple(wanted.metadata)
                )
            except grpc.aio.AioRpcError as error:
                if error.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                    raise _NotYetError from None
                return error.code(), b""
        return None, response


def renamed(message: bytes, path: Path, producer: int) -> bytes:
    """Replace the producer's id in a message; everything else stays.

    :param path: of the id, as the method map has it.
    :raises ValueError: if it is no such message.
    """
    try:
        if path == METHOD_MAP.methods[SEND_MESSAGE].producer:
            sent = StreamMessage.FromString(message)
            sent.msg_id.producer_id = producer
            return sent.SerializeToString()
        check = HealthCheckRequest.FromString(message)
        check.id = producer
        return check.SerializeToString()
    except DecodeError as error:
        raise ValueError(str(error)) from None
