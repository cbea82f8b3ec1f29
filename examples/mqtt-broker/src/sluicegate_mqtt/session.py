"""One MQTT client: what it publishes is decided, packet by packet and in order; all else passes."""

from collections import deque
from collections.abc import Iterator, Sequence

from sluicegate.api import (
    ANONYMOUS,
    PASS,
    Action,
    BaseSession,
    Close,
    CloseReason,
    Command,
    Decision,
    Operation,
    OperationKind,
    Outcome,
    PauseReading,
    ResumeReading,
    Services,
    ToClient,
    ToUpstream,
    WakeAt,
)
from sluicegate_mqtt import packets
from sluicegate_mqtt.packets import Kind, Publish, Refusal

LARGEST_PACKET = 16 << 20
MOST_TOPICS = 1_000
"""Topics that one connection publishes to: what clients choose needs a bound."""


class MqttClose(CloseReason):
    """Why a session closes its connections."""

    MALFORMED = "malformed_packet", "A client or the broker sends what is no packet of MQTT, or too large."
    TOO_MANY_TOPICS = "too_many_topics", "A client publishes to more topics than one connection may."
    NO_MEMORY = "no_memory", "What a client has sent does not fit into the memory of all clients."
    REFUSED = (
        "publish_refused",
        "A message is refused, and the protocol before MQTT 5 has no answer for that.",
    )


class MqttSession(BaseSession):
    """One client, and its connection to the broker."""

    client: str = ""
    principal: str = ANONYMOUS
    is_logged_in: bool = False

    def __init__(self, services: Services, exempt: frozenset[str], peer: str) -> None:
        self.client = peer
        self._services = services
        self._exempt = exempt
        self._peer = peer
        self._arriving = bytearray()
        self._answers = bytearray()
        """Of the broker, until it has accepted the client."""
        self._waiting: deque[bytes] = deque()
        """Complete packets of the client, behind one that is delayed or a login that is not answered."""
        self._taken = 0
        """Bytes of the gateway's memory for all clients."""
        self._is_paused = False
        self._level = 0
        """Of the protocol; 0 until the client has sent CONNECT."""
        self._user = ""
        self._aliases: dict[int, str] = {}
        self._operations: dict[str, Operation] = {}
        """By topic: of kind ATTACH_PRODUCER until its producer is admitted, then PUBLISH."""

    @property
    def held_bytes(self) -> int:
        """Bytes in memory."""
        return len(self._arriving) + len(self._answers) + sum(map(len, self._waiting))

    def receive_client(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Decide about each complete packet."""
        self._arriving += data
        return self._go_on(now_ns)

    def receive_upstream(self, data: bytes, now_ns: int) -> Sequence[Command]:
        """Look for the answer to the login; all else passes unread."""
        if self.is_logged_in:
            return PASS
        self._answers += data
        try:
            answers = list(packets.packets(self._answers, LARGEST_PACKET))
            accepted = any(each[0] >> 4 == Kind.CONNACK and packets.is_accepted(each) for each in answers)
        except ValueError as error:
            return [Close(MqttClose.MALFORMED, str(error))]
        if not accepted:
            return PASS
        self._answers.clear()
        self.is_logged_in, self.principal = True, self._user or ANONYMOUS
        return [ToClient(data), *self._go_on(now_ns)]

    def wake(self, now_ns: int, client_gone: bool) -> Sequence[Command]:
        """Go on with the message that was delayed; what a client that is gone had sent is dropped."""
        return [Close()] if client_gone else self._go_on(now_ns)

    def closed(self, now_ns: int) -> None:
        """Give back the client's memory, and its places on its topics."""
        self._services.budget.give(self._taken)
        self._taken = 0
        for topic, op in self._operations.items():
            gate = self._services.gates.get(topic, self._is_exempt, now_ns)
            gate.abandon(op, now_ns)
            if op.kind is OperationKind.PUBLISH:
                gate.detach(op)

    @property
    def _is_exempt(self) -> bool:
        return self.principal in self._exempt

    def _go_on(self, now_ns: int) -> Sequence[Command]:
        commands: list[Command] = []
        try:
            self._waiting.extend(packets.packets(self._arriving, LARGEST_PACKET))
            commands.extend(self._forward(now_ns))
        except ValueError as error:
            commands.append(Close(MqttClose.MALFORMED, str(error)))
        if not self._takes_memory(self.held_bytes):
            commands.append(Close(MqttClose.NO_MEMORY))
        return commands

    def _takes_memory(self, held: int) -> bool:
        """Account for what is kept now; False if that is more than there is."""
        budget, more = self._services.budget, held - self._taken
        if more > 0 and not budget.take(more):
            return False
        if more < 0:
            budget.give(-more)
        self._taken = held
        return True

    def _forward(self, now_ns: int) -> Iterator[Command]:
        """Send packets on until one has to wait."""
        while self._waiting:
            packet = self._waiting[0]
            if not self._level:
                self._read_connect(packet)
            elif packet[0] >> 4 == Kind.PUBLISH:
                publish = packets.read_publish(packet, self._level)
                topic = self._topic_of(publish)
                if topic not in self._operations and len(self._operations) >= MOST_TOPICS:
                    yield Close(MqttClose.TOO_MANY_TOPICS)
                    return
                decision = self._decide(topic, publish, now_ns) if self.is_logged_in else None
                if decision is not None and decision.action is Action.DELAY:
                    yield WakeAt(now_ns + decision.delay_ns)
                if not self.is_logged_in or (decision is not None and decision.action is Action.DELAY):
                    if not self._is_paused:
                        self._is_paused = True
                        yield PauseReading()
                    return
                if decision is not None and decision.action in (Action.REJECT, Action.DROP):
                    self._waiting.popleft()
                    yield from self._refused(publish, decision)
                    continue
            self._waiting.popleft()
            yield ToUpstream(packet)
        if self._is_paused:
            self._is_paused = False
            yield ResumeReading()

    def _read_connect(self, packet: bytes) -> None:
        if packet[0] >> 4 != Kind.CONNECT:
            raise packets.MalformedError("the first packet is no CONNECT")
        connect = packets.read_connect(packet)
        self._level, self._user = connect.level, connect.user
        self.client = f"{connect.client_id}@{self._peer}"

    def _topic_of(self, publish: Publish) -> str:
        """The topic of a message, by its alias if it has no name."""
        if publish.alias and publish.topic:
            self._aliases[publish.alias] = publish.topic
        topic = publish.topic or self._aliases.get(publish.alias, "")
        if not topic:
            raise packets.MalformedError("a message has no topic")
        return topic

    def _decide(self, topic: str, publish: Publish, now_ns: int) -> Decision | None:
        """None allows; the same operation is given again after a delay."""
        gate = self._services.gates.get(topic, self._is_exempt, now_ns)
        op = self._operations.get(topic)
        if op is None:
            op = Operation(OperationKind.ATTACH_PRODUCER, topic, self.principal, self.client, self.client)
            self._operations[topic] = op
        if op.kind is OperationKind.ATTACH_PRODUCER:
            decision = gate.decide(op, now_ns)
            if decision is not None:
                return decision
            op.kind = OperationKind.PUBLISH
        op.messages, op.bytes, op.largest = 1, publish.payload, publish.payload
        op.reliable = publish.qos > 0
        return gate.decide(op, now_ns)

    def _refused(self, publish: Publish, decision: Decision) -> Iterator[Command]:
        """Answer as the protocol can: QoS 0 promises nothing, and before MQTT 5 only closing is left."""
        if publish.qos == 0:
            return
        text = f"{decision.text} [sluicegate {decision.id}]"
        if self._level < packets.MQTT_5:
            yield Close(MqttClose.REFUSED, text)
            return
        is_invalid = decision.reasons[0].outcome is Outcome.INVALID
        code = Refusal.NOT_ACCEPTED if is_invalid else Refusal.QUOTA_EXCEEDED
        yield ToClient(packets.refusal(publish, code, text))
