"""Danube clients and brokers, which speak gRPC over HTTP/2, for the session fuzzer."""

from collections import deque
from functools import cache
from random import Random

from hpack import Encoder
from tests.fuzz import foreign
from tests.fuzz.bombs import header_block
from tests.fuzz.link import FoundError
from tests.fuzz.mutating import Framing
from tests.fuzz.services import LONG, AnyFuzz, now
from tests.grpc.proxy.splice.oracle import service
from tests.grpc.proxy.splice.oracle.reshape import (
    ACK,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    frame,
)

from sluicegate.broker import Listener
from sluicegate_danube.config import DanubeConfig
from sluicegate_danube.front import DanubeFront
from sluicegate_danube.method_map import BROKER_HEADER, CONSUMERS, EDGE, PRODUCERS, TOPIC_LOOKUP

TOPICS = ("/default/a", "/default/b", "/default/c-part-0", "/other/d", f"/default/{LONG}")
_CREATE, _SEND = PRODUCERS + "CreateProducer", PRODUCERS + "SendMessage"
_SUBSCRIBE, _RECEIVE, _ACK = (CONSUMERS + each for each in ("Subscribe", "ReceiveMessages", "Ack"))
_HEALTH, _REPLICATE = "/danube.HealthCheck/HealthCheck", EDGE + "ReplicateData"
_PRODUCER = (_CREATE, *(_SEND,) * 10, _HEALTH, TOPIC_LOOKUP)
_CONSUMER = (_SUBSCRIBE, _SUBSCRIBE, _RECEIVE, _RECEIVE, *(_ACK,) * 6, CONSUMERS + "Nack", _HEALTH)
_ADMIN = (TOPIC_LOOKUP, "/danube.Discovery/TopicPartitions", "/no.Such/Method", _REPLICATE, _HEALTH)
_ROLES = (_PRODUCER, _PRODUCER, _CONSUMER, _CONSUMER, (*_PRODUCER, *_CONSUMER), _ADMIN)
_WINDOWS = frame(WINDOW_UPDATE, 0, 0, (1 << 30).to_bytes(4))
_WINDOW_SETTING = frame(SETTINGS, 0, 0, b"\0\4" + (1 << 24).to_bytes(4))
_LARGEST = 4 * 1024 * 1024
_BOMB = 4
"""The variant of a request's headers that unpacks to 2 MB."""
_VARIANTS = (0, 0, 0, 1, 2, 3) * 30 + (_BOMB,)


def resized(data: bytes) -> bytes:
    """A frame that says its own length."""
    return (len(data) - 9).to_bytes(3) + data[3:] if len(data) >= 9 else data


@cache
def _block(path: str, variant: int) -> bytes:
    """The headers of a request."""
    encoder = Encoder()
    encoder.header_table_size = 0
    more = [("authorization", "Bearer x"), (BROKER_HEADER, "http://b:6650"), ("grpc-encoding", "gzip")]
    block = encoder.encode(service.request(path, *more[: variant % 4]))
    return header_block(block) if variant == _BOMB else block


@cache
def _answer_blocks() -> tuple[bytes, bytes]:
    encoder = Encoder()
    encoder.header_table_size = 0
    return encoder.encode(service.ANSWER), encoder.encode(service.OK)


def _message_id(chance: Random) -> bytes:
    holder, topic = chance.randrange(1, 4), chance.choice(TOPICS)
    fields = ((1, holder), (2, topic), (3, "http://b:6650"), (4, 1), (5, chance.randrange(100)))
    return b"".join(service.field(number, value) for number, value in fields)


def _request(path: str, chance: Random) -> bytes:
    """The message of a request."""
    topic, holder = chance.choice(TOPICS), chance.randrange(1, 4)
    if path == _CREATE:
        return service.message((1, 1), (2, f"p{holder}"), (3, topic), (6, chance.randrange(2)))
    if path == _SEND:
        payload = chance.choice((b"hello", b"x" * 120, b"", b"y" * 3_000))
        return service.message((1, 1), (2, _message_id(chance)), (3, payload), (5, f"p{holder}"))
    if path == _SUBSCRIBE:
        return service.message((1, 1), (2, topic), (3, f"c{holder}"), (4, f"s{holder % 2}"), (5, 1))
    if path == _RECEIVE:
        return service.message((1, 1), (2, holder))
    if path == _HEALTH:
        return service.message((1, 1), (2, 1), (3, holder))
    if path == _REPLICATE:
        record = service.field(2, _message_id(chance)) + service.field(3, b"payload")
        return service.message((1, topic), *((2, record),) * chance.randrange(4))
    return service.message((1, 1), (2, _message_id(chance)), (3, "s1"))


def _delivered(chance: Random) -> bytes:
    """One message of a stream of them."""
    return service.message(
        (1, 1), (2, _message_id(chance)), (3, chance.choice((b"hello", b"x" * 120))), (4, 1_750_000_000_000)
    )


class DanubeEnds:
    """One client, and the broker that it is connected to."""

    dials = True

    def __init__(self, front: "DanubeFuzz", number: int, now_ns: int) -> None:
        self._front, self._chance = front, front.chance
        listener = Listener("bootstrap", "127.0.0.1", 19_000, ())
        self.session = front.front.session(listener, f"10.0.0.{number % 4}:{5000 + number}", now_ns)
        self._role = self._chance.choice(_ROLES)
        self._has_begun = self._has_answered = False
        self._stream = -1
        self._open: deque[int] = deque(maxlen=50)
        """Streams that the client may say more on, or cancel."""
        self._sent: dict[int, bytearray] = {}
        """What it has sent on each stream, for what the broker hears."""
        self._heard: dict[int, int] = {}
        self._unsound: set[int] = set()
        """Streams of which a mutator had a frame in its hands."""
        self._is_sound = True
        self._up = bytearray()
        self._up_began = False
        self._due: deque[tuple[int, bytes]] = deque()
        self._paths: dict[int, bool] = {}
        self._streaming: deque[int] = deque(maxlen=6)
        self._acks = 0

    # -- the client ---------------------------------------------------------------------------------------

    def client_says(self) -> list[bytes]:
        chance, out = self._chance, []
        if not self._has_begun:
            self._has_begun = True
            out = [PREFACE + frame(SETTINGS), _WINDOW_SETTING, _WINDOWS]
        for _ in range(chance.choice((1, 1, 2, 6, 20))):
            if chance.random() < 0.85:
                out += self._call(chance.choice(self._role))
            else:
                out.append(self._control())
        return out

    def _call(self, path: str) -> list[bytes]:
        chance = self._chance
        self._stream += 2
        stream, message = self._stream, _request(path, chance)
        self._open.append(stream)
        headers = frame(
            HEADERS,
            END_HEADERS,
            stream,
            _block(path, chance.choice(_VARIANTS)),
        )
        if chance.random() < 0.8:
            return [headers, frame(DATA, END_STREAM, stream, message)]
        cut = chance.randrange(len(message))
        parts = [frame(DATA, 0, stream, message[:cut]), frame(DATA, 0, stream, message[cut:])]
        return [headers, *parts[: chance.randint(0, 2)], frame(DATA, END_STREAM, stream)]

    def _control(self) -> bytes:
        chance = self._chance
        stream = chance.choice(self._open) if self._open else 1
        return chance.choice(
            (
                frame(WINDOW_UPDATE, 0, 0, (1 << 16).to_bytes(4)),
                frame(WINDOW_UPDATE, 0, stream, (1 << 16).to_bytes(4)),
                frame(PING, 0, 0, bytes(8)),
                frame(SETTINGS, ACK),
                frame(RST_STREAM, 0, stream, (8).to_bytes(4)),
                frame(PRIORITY, 0, stream, bytes(5)),
                _WINDOW_SETTING,
            )
        )

    def client_sent(self, frames: list[bytes], damaged: bool) -> None:
        for each in frames:
            found = each.removeprefix(PREFACE)
            self._is_sound = self._is_sound and len(found) >= 9 and resized(found) == found
            if damaged:
                self._unsound.add(_stream_of(found))
            elif self._is_sound and found[3] == DATA:
                self._sent.setdefault(_stream_of(found), bytearray()).extend(found[9:])

    def client_hears(self, data: bytes) -> None:
        pass

    # -- the broker ---------------------------------------------------------------------------------------

    def broker_hears(self, data: bytes) -> None:
        self._up += data
        if not self._up_began:
            if len(self._up) < len(PREFACE):
                return
            if not self._up.startswith(PREFACE):
                raise FoundError(f"the broker hears no preface but {bytes(self._up[:30])!r}")
            del self._up[: len(PREFACE)]
            self._up_began = True
        while len(self._up) >= 9 and len(self._up) >= (end := 9 + int.from_bytes(self._up[:3])):
            found = bytes(self._up[:end])
            del self._up[:end]
            self._hear(found)
        if len(self._up) > _LARGEST:
            self._up.clear()

    def _hear(self, found: bytes) -> None:
        stream = _stream_of(found)
        if found[3] == DATA:
            if self._is_sound and stream not in self._unsound:
                self._in_order(stream, found[9:])
            if found[4] & END_STREAM:
                self._due.append((stream, found[9:]))
        elif found[3] == HEADERS:
            self._paths[stream] = b"Receive" in found
            if _RECEIVE_BLOCK in found:
                self._streaming.append(stream)
        elif found[3] == SETTINGS and not found[4] & ACK:
            self._acks += 1

    def _in_order(self, stream: int, data: bytes) -> None:
        sent, at = self._sent.get(stream, b""), self._heard.get(stream, 0)
        if bytes(sent[at : at + len(data)]) != data:
            raise FoundError(f"the broker hears other bytes on stream {stream} than were sent")
        self._heard[stream] = at + len(data)

    def broker_says(self) -> list[bytes]:
        chance, out = self._chance, []
        if not self._has_answered:
            self._has_answered = True
            out = [frame(SETTINGS), _WINDOW_SETTING, _WINDOWS]
        out += [frame(SETTINGS, ACK)] * self._acks
        self._acks = 0
        begin, end = _answer_blocks()
        for _ in range(min(chance.choice((1, 3, len(self._due))), len(self._due))):
            stream, _ = self._due.popleft()
            out.append(frame(HEADERS, END_HEADERS, stream, begin))
            if stream in self._streaming:
                continue
            reply = service.message((1, 1), (2, chance.randrange(1, 4)), (3, 1))
            out.append(frame(DATA, 0, stream, reply))
            out.append(frame(HEADERS, END_HEADERS | END_STREAM, stream, end))
        if self._streaming and chance.random() < 0.6:
            stream = chance.choice(self._streaming)
            out += [frame(DATA, 0, stream, _delivered(chance)) for _ in range(chance.choice((1, 5, 30)))]
        if chance.random() < 0.1:
            out.append(self._from_broker())
        return out

    def _from_broker(self) -> bytes:
        chance = self._chance
        stream = chance.choice(self._open) if self._open else 1
        return chance.choice(
            (
                frame(PING, 0, 0, bytes(8)),
                frame(RST_STREAM, 0, stream, (2).to_bytes(4)),
                frame(WINDOW_UPDATE, 0, stream, (1 << 16).to_bytes(4)),
                frame(7, 0, 0, stream.to_bytes(4) + bytes(4)),
                frame(HEADERS, END_HEADERS | END_STREAM, stream, _answer_blocks()[1]),
            )
        )

    def broker_sent(self, frames: list[bytes], damaged: bool) -> None:
        pass

    def in_thread(self, question: object) -> int:
        return 0

    def answer(self, question: object, now_ns: int) -> object:
        chance, topic = self._chance, getattr(question, "topic", None)
        if topic is None:
            raise FoundError(f"unexpected question {question!r}")
        if chance.random() < 0.1:
            return OSError("no answer")
        found = ["s0", "s1"] if chance.random() < 0.8 else None
        self._front.front._started.calls.attachments.listed(topic, found, now_ns, now_ns)
        return None


def _stream_of(found: bytes) -> int:
    return int.from_bytes(found[5:9]) & 0x7FFFFFFF


_RECEIVE_BLOCK = _block(_RECEIVE, 0)[:30]


class DanubeFuzz(AnyFuzz):
    """A Danube front."""

    framing = Framing(9, resized, (3, 8), (*foreign.KAFKA, *foreign.PULSAR))

    def __init__(self, chance: Random) -> None:
        super().__init__(chance, TOPICS, frozenset({"inspect", "delay_clock", "max_delivery_delay"}))
        entry = {
            "name": "d",
            "system": "danube",
            "bootstrap": ["b:6650"],
            "listen": {"port": 19_000},
            "unknown_methods": chance.choice(("refuse", "pass")),
            "route": chance.choice(("ports", "metadata")),
        }
        self.front = DanubeFront(DanubeConfig.model_validate(entry))
        now(self.front.start(self.bench))
        self.change()

    def connect(self, number: int, now_ns: int) -> DanubeEnds:
        return DanubeEnds(self, number, now_ns)

    def tick(self, now_ns: int) -> None:
        self.front.tick(now_ns)

    def check(self, now_ns: int) -> None:
        shared = self.front._started
        self.left(shared.sessions, shared.services.gates.states)
