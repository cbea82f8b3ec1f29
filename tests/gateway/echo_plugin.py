"""A broker plugin for tests: lines of text, whose first word is a command for the session."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from sluicegate import hookimpl
from sluicegate.broker import (
    PASS,
    Ask,
    BaseDriver,
    BaseFront,
    BaseSession,
    Close,
    Command,
    Dial,
    Listener,
    PauseReading,
    ResumeReading,
    Services,
    ToClient,
    ToUpstream,
    WakeAt,
)
from sluicegate.config import BrokerConfig
from sluicegate.engine.shared_limits import Asking
from sluicegate.model import Action, CloseReason, Operation, OperationKind, SessionClose, TopicName

MS = 1_000_000


class EchoClose(CloseReason):
    ASKED_TO_CLOSE = "asked_to_close", "A test asked for it."


class EchoConfig(BrokerConfig):
    system: Literal["echo"]
    ask_fails: bool = False
    greeting: str = ""


class RawSession(BaseSession):
    """Passes everything on, as it is."""

    client: str = ""
    frame_began_ns: int = 0

    def __init__(self, peer: str) -> None:
        self.client = f"raw@{peer}"

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        return PASS

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        return PASS


class BulkSession(RawSession):
    """Passes everything on; what the broker sends in bulk it need not see."""

    unread_bytes: int = 0

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self.seen = 0
        """Bytes of the broker that it was shown."""
        self.moved = 0

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        if self.unread_bytes == 0:  # eight bytes tell how many follow
            self.unread_bytes = int.from_bytes(data[:8], "big") + 8
        self.seen += len(data)
        self.unread_bytes -= len(data)
        return PASS if self.unread_bytes else [ToClient(data), ToClient(b"<end>")]

    def passed(self, count: int, now_ns: int) -> Sequence[Command]:
        self.moved += count
        self.unread_bytes -= count
        return [ToClient(b"<end>")] if self.unread_bytes == 0 else ()


class UploadSession(RawSession):
    """Passes everything on; what the client sends in bulk it need not see."""

    unread_request_bytes: int = 0

    def __init__(self, peer: str) -> None:
        super().__init__(peer)
        self.seen = self.moved = 0

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        if self.unread_request_bytes == 0:  # eight bytes tell how many follow
            self.unread_request_bytes = int.from_bytes(data[:8], "big") + 8
        self.seen += len(data)
        self.unread_request_bytes -= len(data)
        return PASS if self.unread_request_bytes else [ToUpstream(data), ToUpstream(b"<end>")]

    def request_passed(self, count: int, now_ns: int) -> Sequence[Command]:
        self.moved += count
        self.unread_request_bytes -= count
        return [ToUpstream(b"<end>")] if self.unread_request_bytes == 0 else ()


class LineSession(BaseSession):
    """`hold MS`, `pause MS`, `ask WHAT`, `answer`, `bye`, `raise`, `publish TOPIC SIZE`; else: forwarded.

    `tell WORD` tells other workers, `heard` says what they told.
    Where the listener names no broker, `dial PORT...` says it.
    """

    client: str = ""

    def __init__(self, front: "EchoFront", peer: str) -> None:
        self.client = f"echo@{peer}"
        self.front = front
        self.rest = b""
        self.began_ns = 0
        self.held: list[bytes] = []
        self.paused = False
        self.dialling = False
        self.operations: dict[str, Operation] = {}

    @property
    def held_bytes(self) -> int:
        return len(self.rest) + sum(map(len, self.held))

    @property
    def frame_began_ns(self) -> int:
        return self.began_ns if self.rest else 0

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        *lines, self.rest = (self.rest + data).split(b"\n")
        if lines or not self.began_ns:
            self.began_ns = now_ns
        out: list[Command] = []
        for line in lines:
            out.extend(self._line(line + b"\n", now_ns))
        return out

    def _line(self, line: bytes, now_ns: int) -> Sequence[Command]:
        if self.dialling:
            self.held.append(line)
            return []
        match line.split():
            case [b"hold", wait]:
                self.held.append(line)
                return [WakeAt(now_ns + int(wait) * MS)]
            case [b"await", seen, go]:
                return self._await(line, Path(seen.decode()), Path(go.decode()), now_ns)
            case [b"pause", wait]:
                self.paused = True
                return [PauseReading(), PauseReading(), WakeAt(now_ns + int(wait) * MS)]
            case [b"ask", what]:
                return [Ask(what.decode())]
            case [b"dial", *ports]:
                self.held.append(line)
                self.dialling = True
                return [Dial(tuple(("127.0.0.1", int(port)) for port in ports))]
            case [b"answer"]:
                return [ToClient(b"one "), ToClient(b"two\n")]
            case [b"publish", topic, size]:
                return self._publish(line, topic.decode(), int(size), now_ns)
        return self._last(line)

    def _last(self, line: bytes) -> Sequence[Command]:
        match line.split():
            case [b"tell", word]:
                self.front.services.tell_siblings("word", {"word": word.decode()})
                return [ToClient(b"told\n")]
            case [b"heard"]:
                return [ToClient(json.dumps(self.front.words).encode() + b"\n")]
            case [b"raise"]:
                raise RuntimeError("the session has a bug")
            case [b"bye"]:
                return [
                    ToClient(b"bye\n"),
                    Close(EchoClose.ASKED_TO_CLOSE, "the test asked"),
                    ToClient(b"never\n"),
                ]
        return [ToUpstream(line)]

    def _await(self, line: bytes, seen: Path, go: Path, now_ns: int) -> Sequence[Command]:
        """Hold a line until a file is there; another tells that it is held."""
        if go.exists():
            return [ToUpstream(line)]
        seen.touch()
        self.held.append(line)
        return [WakeAt(now_ns + 10 * MS)]

    def _publish(self, line: bytes, topic: str, size: int, now_ns: int) -> Sequence[Command]:
        gate = self.front.services.gates.get(topic, False, now_ns)
        op = self.operations.get(topic)
        if op is None:
            op = Operation(OperationKind.ATTACH_PRODUCER, topic, client=self.client, producer=self.client)
            refused = gate.decide(op, now_ns)
            if isinstance(refused, Asking):
                self.held.append(line)
                return [WakeAt(now_ns + refused.delay_ns)]
            if refused is not None:
                return [ToClient(b"refused " + refused.text.encode() + b"\n")]
            op.kind = OperationKind.PUBLISH
            self.operations[topic] = op
        op.messages, op.bytes, op.largest = 1, size, size
        decision = gate.decide(op, now_ns)
        if decision is None:
            return [ToUpstream(line)]
        if decision.action is Action.DELAY:
            self.held.append(line)
            return [WakeAt(now_ns + decision.delay_ns)]
        return [ToClient(f"refused {decision.id} {decision.text}\n".encode())]

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        return (ToClient(data),)

    def dialled(self, now_ns: int) -> Sequence[Command]:
        held, self.held = self.held, []
        self.dialling = False
        return [ToUpstream(line) for line in held]

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        self.front.wakes.append((now_ns, client_gone))
        if client_gone:
            return [Close(SessionClose.CLIENT_GONE)]
        if self.paused:
            self.paused = False
            return [ResumeReading(), ResumeReading()]
        held, self.held = self.held, []
        out: list[Command] = []
        for line in held:
            again = line.startswith((b"publish", b"await"))
            out.extend(self._line(line, now_ns) if again else [ToUpstream(line)])
        return out

    def answered(self, question: object, answer: object, now_ns: int) -> Sequence[Command]:
        return [ToUpstream(f"{question}: {answer}\n".encode())]

    def closed(self, now_ns: int) -> None:
        self.front.closed.append(self.client)
        for op in self.operations.values():
            gate = self.front.services.gates.get(op.topic, False, now_ns)
            gate.abandon(op, now_ns)
            gate.detach(op)


class EchoFront(BaseFront):
    services: Services

    def __init__(self, config: EchoConfig) -> None:
        self.config = config
        self.greeting = config.greeting.encode()
        self.closed: list[str] = []
        self.wakes: list[tuple[int, bool]] = []
        self.ticks = 0
        self.bulk: list[BulkSession] = []
        self.uploads: list[UploadSession] = []
        self.words: list[str] = []

    def heard(self, kind: str, content: Mapping[str, Any]) -> None:
        self.words.append(content[kind])

    async def start(self, services: Services) -> None:
        self.services = services
        upstream = tuple((address.host, address.port) for address in self.config.bootstrap)
        listen = self.config.listen
        for _ in range(2):  # opening it again does nothing
            await services.listen(Listener("bootstrap", listen.host, listen.port, upstream))
        starts = int(services.recall("starts").get("starts", "0")) + 1
        services.remember("starts", str(starts))

    def session(self, listener: Listener, peer: str, now_ns: int) -> LineSession | RawSession:
        if listener.name == "bulk":
            self.bulk.append(BulkSession(peer))
            return self.bulk[-1]
        if listener.name == "upload":
            self.uploads.append(UploadSession(peer))
            return self.uploads[-1]
        return RawSession(peer) if listener.name == "raw" else LineSession(self, peer)

    async def answer(self, question: object) -> object:
        await asyncio.sleep(0.03)
        if question == "nobody":
            raise LookupError("nobody knows")
        return "known"

    def tick(self, now_ns: int) -> None:
        self.ticks += 1

    def counters(self) -> Mapping[str, int]:
        return {"lines": 7}


class EchoDriver(BaseDriver):
    system = "echo"
    config_model = EchoConfig

    def name_of(self, topic: str, config: Any) -> TopicName:
        return TopicName(topic, topic.partition(".")[0] if "." in topic else "default")

    def front(self, config: Any) -> EchoFront:
        return EchoFront(config)


@hookimpl
def sluicegate_broker() -> EchoDriver:
    return EchoDriver()
