"""Kafka clients and brokers for the session fuzzer."""

from collections import deque
from random import Random

from tests.fuzz import foreign
from tests.fuzz.kafka_frames import TOPICS, produced, request, response, versions, whole_frames
from tests.fuzz.link import FoundError
from tests.fuzz.mutating import Framing
from tests.fuzz.services import AnyFuzz, now

from sluicegate.broker import Listener
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.produce_requests import scan_produce
from sluicegate_kafka.codec.slices import at_once
from sluicegate_kafka.config import KafkaConfig
from sluicegate_kafka.front import KafkaFront
from sluicegate_kafka.session.producing.unpacking import Unpacking
from sluicegate_kafka.session.requests.connection import INJECTED

_GREETING = (ApiKey.API_VERSIONS, ApiKey.METADATA)
_LOGIN = (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE, ApiKey.METADATA)
_PRODUCER = (ApiKey.PRODUCE,) * 12 + (ApiKey.METADATA, ApiKey.INIT_PRODUCER_ID)
_TRANSACTIONAL = (
    *_PRODUCER[:4],
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)
_CONSUMER = (
    *(ApiKey.FETCH,) * 8,
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.HEARTBEAT,
    ApiKey.OFFSET_COMMIT,
    ApiKey.OFFSET_FETCH,
    ApiKey.LIST_OFFSETS,
    ApiKey.LEAVE_GROUP,
)
_NEW_CONSUMER = (*(ApiKey.FETCH,) * 4, *(ApiKey.CONSUMER_GROUP_HEARTBEAT,) * 3, ApiKey.OFFSET_COMMIT)
_ADMIN = (
    ApiKey.CREATE_TOPICS,
    ApiKey.DESCRIBE_CLUSTER,
    ApiKey.DESCRIBE_QUORUM,
    ApiKey.LIST_GROUPS,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.DELETE_GROUPS,
    ApiKey.DESCRIBE_CONFIGS,
    ApiKey.METADATA,
)
_ROLES = (_PRODUCER, _PRODUCER, _TRANSACTIONAL, _CONSUMER, _CONSUMER, _NEW_CONSUMER, _ADMIN)
_LARGEST = 4 * 1024 * 1024
"""Bytes after which the broker gives up waiting for the end of a request."""


def resized(frame: bytes) -> bytes:
    """A frame that says its own length."""
    return (len(frame) - 4).to_bytes(4, "big") + frame[4:] if len(frame) >= 4 else frame


def _is_whole(frame: bytes) -> bool:
    return len(frame) >= 8 and int.from_bytes(frame[:4], "big") == len(frame) - 4


class KafkaEnds:
    """One client, and the broker that it is connected to."""

    dials = False

    def __init__(self, front: "KafkaFuzz", number: int, now_ns: int) -> None:
        chance = front.chance
        listener = Listener(f"node-{number % 3}", "127.0.0.1", 19_100, (("b", 9092),))
        self.session = front.front.session(listener, f"10.0.0.{number % 4}:{5000 + number}", now_ns)
        self._front = front
        self._chance = chance
        self._plan = deque(chance.choice((_GREETING, _GREETING, _LOGIN, ())))
        self._role = chance.choice(_ROLES)
        self._versions: dict[int, int] = {}
        self._next_id = 1
        self._asked: deque[bytes] = deque()
        """Correlation ids of what the client sent, for what it hears."""
        self._sent: deque[bytes] = deque()
        """The same, for what the broker hears."""
        self._last_heard = b""
        self._up, self._down = bytearray(), bytearray()
        self._is_sound = True
        """False once frames of either side cannot be told apart any more."""
        self._due: deque[bytes] = deque()
        """Requests that the broker has yet to answer."""

    def client_says(self) -> list[bytes]:
        chance = self._chance
        out = []
        for _ in range(chance.choice((1, 1, 2, 6, 20))):
            api_key = self._plan.popleft() if self._plan else chance.choice(self._role)
            version = self._versions.get(api_key)
            if version is None:
                version = self._versions[api_key] = chance.choice(versions(api_key))
            out.append(request(api_key, version, self._next_id, chance))
            self._next_id += 1
        return out

    def client_sent(self, frames: list[bytes], damaged: bool) -> None:
        self._is_sound = self._is_sound and all(len(f) >= 12 and _is_whole(f) for f in frames)
        if self._is_sound:
            ids = [frame[8:12] for frame in frames]
            self._asked.extend(ids)
            self._sent.extend(ids)

    def broker_hears(self, data: bytes) -> None:
        self._up += data
        if len(self._up) > _LARGEST:
            self._up.clear()
            self._is_sound = False
        for frame in whole_frames(self._up):
            if self._is_sound and len(frame) >= 12:
                self._in_order(frame[8:12])
            self._due.append(frame)

    def _in_order(self, correlation_id: bytes) -> None:
        if correlation_id == self._last_heard or correlation_id == INJECTED.to_bytes(4, "big", signed=True):
            return  # a Produce in parts, or the gate's own
        while self._sent:
            if self._sent.popleft() == correlation_id:
                self._last_heard = correlation_id
                return
        raise FoundError(f"the broker hears {correlation_id.hex()} out of order")

    def broker_says(self) -> list[bytes]:
        count = self._chance.choice((1, 2, len(self._due)))
        return [
            answer for _ in range(min(count, len(self._due))) if (answer := self._answer(self._due.popleft()))
        ]

    def _answer(self, frame: bytes) -> bytes:
        """The broker's answer to a request; empty if there is none."""
        api_key, version = int.from_bytes(frame[4:6], "big"), int.from_bytes(frame[6:8], "big")
        correlation_id = frame[8:12]
        if api_key == ApiKey.PRODUCE:
            try:
                found = scan_produce(frame, parse_request_head(frame, 4, len(frame)))
            except ProtocolError:
                return b""
            if found.acks == 0:
                return b""
            topics = tuple((topic.name, tuple(topic.partitions)) for topic in found.topics)
            if len(topics) < 20 and "" not in dict(topics):
                return produced(version, topics, correlation_id)
        try:
            return response(api_key, version, correlation_id, self._chance)
        except Exception:  # noqa: BLE001 - an API or a version that kio does not know
            return resized(bytes(4) + correlation_id + self._chance.randbytes(20))

    def broker_sent(self, frames: list[bytes], damaged: bool) -> None:
        # What the broker says in another order, or twice, ends the connection or is passed as it is.
        self._is_sound = self._is_sound and all(map(_is_whole, frames))

    def client_hears(self, data: bytes) -> None:
        if not self._is_sound:
            return
        self._down += data
        for frame in whole_frames(self._down):
            while self._asked:
                if self._asked.popleft() == frame[4:8]:
                    break
            else:
                raise FoundError(f"the client hears {frame[4:8].hex()} out of order")

    def in_thread(self, question: object) -> int:
        return len(question._packed) if isinstance(question, Unpacking) else 0

    def answer(self, question: object, now_ns: int) -> object:
        chance, shared = self._chance, self._front.front._started
        if isinstance(question, Unpacking):
            question.run()
            return None
        if chance.random() < 0.1:
            return OSError("no answer")
        groups = {topic: {"g1", "g2"} for topic in chance.sample(TOPICS, 2)}
        shared.learned.listing.learned(groups if chance.random() < 0.8 else None, now_ns, now_ns)
        return None


class KafkaFuzz(AnyFuzz):
    """A Kafka front."""

    framing = Framing(4, resized, (4, 7), (*foreign.PULSAR, *foreign.HTTP2))

    def __init__(self, chance: Random) -> None:
        without = frozenset({"max_unacked_messages_per_consumer", "max_delivery_delay"})
        super().__init__(chance, TOPICS, without)
        self.bench.exempt = frozenset({"admin"})
        entry = {"name": "k", "system": "kafka", "bootstrap": ["b:9092"], "listen": {"port": 19_000}}
        Unpacking(0, b"", 0).run()  # once the library is loaded, each run takes the same way
        self.front = KafkaFront(KafkaConfig.model_validate(entry))
        now(self.front.start(self.bench))
        self.change()

    def connect(self, number: int, now_ns: int) -> KafkaEnds:
        return KafkaEnds(self, number, now_ns)

    def tick(self, now_ns: int) -> None:
        shared = self.front._started
        for connection in tuple(shared.releases):
            for release in shared.releases[connection]:
                at_once(release(now_ns))

    def check(self, now_ns: int) -> None:
        shared = self.front._started
        if self.bench.budget.used or shared.releases:
            raise FoundError(f"{self.bench.budget.used} bytes, {len(shared.releases)} connections are left")
        left = [name for name, state in shared.gates.states.items() if state.producers]
        if left:
            raise FoundError(f"producers are left of {left}")
