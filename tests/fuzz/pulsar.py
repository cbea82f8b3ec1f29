"""Pulsar clients and brokers for the session fuzzer."""

from collections import deque
from functools import cache
from random import Random
from typing import Any

from tests.fuzz import foreign
from tests.fuzz.bombs import pulsar_batch
from tests.fuzz.kafka_frames import whole_frames
from tests.fuzz.link import FoundError
from tests.fuzz.mutating import Framing
from tests.fuzz.pulsar_frames import TOPICS, batch, client_frame, delivered, resized, response, unprompted
from tests.fuzz.services import AnyFuzz, now
from tests.pulsar.session import messages

from sluicegate.broker import Listener
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import parse_command
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.front import PulsarFront
from sluicegate_pulsar.names import topic_name
from sluicegate_pulsar.session.shared.subscriptions import ListSubscriptions

_TYPES = messages.TYPES
_LARGEST = 4 * 1024 * 1024
_PRODUCER = ("send",) * 14 + ("producer", "producer", "close_producer", "lookup", "partitioned_metadata")
_CONSUMER = (
    *("flow",) * 3,
    *("ack",) * 6,
    "subscribe",
    "subscribe",
    "redeliver_unacknowledged_messages",
    "seek",
    "unsubscribe",
    "close_consumer",
    "consumer_stats",
    "get_last_message_id",
)
_TRANSACTIONAL = (
    *_PRODUCER[8:16],
    "tc_client_connect_request",
    "new_txn",
    "add_partition_to_txn",
    "add_subscription_to_txn",
    "end_txn",
    "ack",
)
_ADMIN = (
    "get_topics_of_namespace",
    "get_schema",
    "get_or_create_schema",
    "watch_topic_list",
    "watch_topic_list_close",
    "lookup",
    "partitioned_metadata",
    "ping",
    "pong",
    "auth_response",
)
_ROLES = (_PRODUCER, _PRODUCER, _CONSUMER, _CONSUMER, _TRANSACTIONAL, (*_PRODUCER, *_CONSUMER), _ADMIN)

_BATCHED = {2: 5, 3: 300, 4: 5}
"""Messages of the payloads that are batches."""


@cache
def _payload(kind: int) -> bytes:
    return (b"hello", b"x" * 120, batch(5), batch(300), pulsar_batch(5), b"", b"y" * 70_000)[kind]


class PulsarEnds:
    """One client, and the broker that it is connected to."""

    dials = True

    def __init__(self, front: "PulsarFuzz", number: int, now_ns: int) -> None:
        self._front, self._chance = front, front.chance
        listener = Listener("bootstrap", "127.0.0.1", 19_000, ())
        self.session = front.front.session(listener, f"10.0.0.{number % 4}:{5000 + number}", now_ns)
        self._role = self._chance.choice(_ROLES)
        self._is_connected = False
        self._request_id = 0
        self._sequences: dict[int, int] = {}
        self._sent: dict[int, deque[int]] = {}
        """Sequence ids that each producer sent, for what the broker hears."""
        self._up, self._down = bytearray(), bytearray()
        self._is_sound = True
        self._due: deque[bytes] = deque()
        self._consumers: deque[int] = deque(maxlen=8)
        self._entry = 0

    def client_says(self) -> list[bytes]:
        chance = self._chance
        if not self._is_connected:
            self._is_connected = True
            return [messages.connect(chance.choice((messages.JAVA, messages.PYTHON)))]
        return [self._one(chance.choice(self._role)) for _ in range(chance.choice((1, 1, 2, 6, 20)))]

    def _one(self, kind: str) -> bytes:
        chance = self._chance
        holder = chance.randrange(3)
        if kind == "send":
            sequence = self._sequences[holder] = self._sequences.get(holder, -1) + 1
            shape = chance.randrange(7)
            more: dict[str, Any] = {}
            if shape in _BATCHED:
                more["num_messages_in_batch"] = _BATCHED[shape]
            elif chance.random() < 0.1:
                more = {"uuid": "u", "num_chunks_from_msg": 3, "total_chunk_msg_size": 360}
                more["chunk_id"] = chance.randrange(3)
            elif chance.random() < 0.1:
                more["deliver_at_time"] = chance.choice((1, 1_750_000_100_000, 2**62))
            return messages.send(sequence, _payload(shape), holder, **more)
        self._request_id += 1
        return client_frame(kind, holder, self._request_id, chance)

    def client_sent(self, frames: list[bytes], damaged: bool) -> None:
        self._is_sound = self._is_sound and all(len(f) >= 8 and resized(f) == f for f in frames)
        for frame in frames if self._is_sound else ():
            if (place := _sent(frame)) is not None:
                self._sent.setdefault(place[0], deque()).append(place[1])

    def broker_hears(self, data: bytes) -> None:
        self._up += data
        if len(self._up) > _LARGEST:
            self._up.clear()
            self._is_sound = False
        for frame in whole_frames(self._up):
            if self._is_sound and (place := _sent(frame)) is not None:
                self._in_order(*place)
            self._due.append(frame)

    def _in_order(self, producer_id: int, sequence_id: int) -> None:
        expected = self._sent.get(producer_id, deque())
        while expected:
            if expected.popleft() == sequence_id:
                return
        raise FoundError(f"the broker hears message {sequence_id} of producer {producer_id} out of order")

    def broker_says(self) -> list[bytes]:
        chance, out = self._chance, []
        for _ in range(min(chance.choice((1, 2, len(self._due))), len(self._due))):
            frame = self._due.popleft()
            try:
                command = parse_command(frame, 0, len(frame))
            except ProtocolError:
                continue
            if command.type == _TYPES.SUBSCRIBE:
                self._consumers.append(command.subscribe.consumer_id)
            out += response(command, chance)
        if self._consumers and chance.random() < 0.5:
            consumer_id = chance.choice(self._consumers)
            for _ in range(chance.choice((1, 5, 40))):
                self._entry += 1
                out.append(delivered(consumer_id, self._entry, chance))
        if chance.random() < 0.05:
            out.append(unprompted(chance))
        return out

    def broker_sent(self, frames: list[bytes], damaged: bool) -> None:
        pass

    def client_hears(self, data: bytes) -> None:
        pass

    def in_thread(self, question: object) -> int:
        return 0

    def answer(self, question: object, now_ns: int) -> object:
        chance, shared = self._chance, self._front.front._started
        if not isinstance(question, ListSubscriptions):
            raise FoundError(f"unexpected question {question!r}")
        if chance.random() < 0.1:
            return OSError("no answer")
        found = {"sub", "other"} if chance.random() < 0.8 else None
        state = shared.gates.state(topic_name(question.topic), now_ns)
        shared.subscriptions.learned(state, found, now_ns, now_ns)
        return None


def _sent(frame: bytes) -> tuple[int, int] | None:
    """Producer and sequence id of a SEND that the fuzzer has written; None for all else."""
    if len(frame) < 12 or frame[8:10] != b"\x08\x06":
        return None
    try:
        send = parse_command(frame, 0, len(frame)).send
    except ProtocolError:
        return None
    return send.producer_id, send.sequence_id


class PulsarFuzz(AnyFuzz):
    """A Pulsar front."""

    framing = Framing(4, resized, (8, 12), (*foreign.KAFKA, *foreign.HTTP2))

    def __init__(self, chance: Random) -> None:
        super().__init__(chance, TOPICS, frozenset({"inspect", "delay_clock"}))
        self.bench.name_of = topic_name
        entry = {"name": "p", "system": "pulsar", "bootstrap": ["b:6650"], "listen": {"port": 19_000}}
        self.front = PulsarFront(PulsarConfig.model_validate(entry))
        now(self.front.start(self.bench))
        self.change()

    def connect(self, number: int, now_ns: int) -> PulsarEnds:
        return PulsarEnds(self, number, now_ns)

    def tick(self, now_ns: int) -> None:
        self.front.tick(now_ns)

    def check(self, now_ns: int) -> None:
        shared = self.front._started
        self.left(0, shared.gates.states)
