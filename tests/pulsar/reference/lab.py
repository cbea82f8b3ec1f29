"""Pieces for tests of the reference broker: entries, consumers, and clients without sockets."""

from collections.abc import Sequence

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import parse_command
from sluicegate_pulsar.reference.broker import Broker, Settings
from sluicegate_pulsar.reference.client_connection import Connection
from sluicegate_pulsar.reference.consumers import Command, Consumer, Deliver
from sluicegate_pulsar.reference.delays import DelaySettings
from sluicegate_pulsar.reference.hash_ranges import slot_of
from sluicegate_pulsar.reference.stored_entry import Entry
from sluicegate_pulsar.reference.subscription import Subscription

TOPIC = "persistent://public/default/orders"
NOW = 1_000_000
"""Where manual clocks start, in ms."""


class Silent:
    """A connection of which nothing is wanted."""

    def carry_out(self, command: Command) -> None:
        raise AssertionError(f"nobody carries out {command}")


def consumer(number: int = 1, priority: int = 0, ranges: Sequence[tuple[int, int]] = ()) -> Consumer:
    return Consumer(Silent(), number, f"c{number}", priority, tuple(ranges))


class Log(list[Entry]):
    """A topic's log, to be filled."""

    def add(self, count: int = 1, *, key: str = "", deliver_at: int = 0, messages: int = 1) -> None:
        for _ in range(count):
            number = len(self)
            key_bytes = key.encode() if key else str(number).encode()
            self.append(Entry(number, b"", messages, messages > 1, 0, 0, 0, slot_of(key_bytes), deliver_at))


def subscription(
    log: Log, *, first: int = 0, partition: int = -1, delay: DelaySettings | None = None
) -> Subscription:
    settings = delay if delay is not None else DelaySettings()
    return Subscription("sub", log, settings, first, partition)


def delivered(commands: Sequence[Command]) -> list[tuple[int, int]]:
    """Consumer id and entry id of each delivery."""
    return [(c.consumer.id, c.entry.number) for c in commands if isinstance(c, Deliver)]


def entries(commands: Sequence[Command]) -> list[int]:
    return [number for _, number in delivered(commands)]


class Client:
    """A client of a broker without sockets: frames go in, commands come out.

    :param broker: whose client it is; a new one if None.
    """

    def __init__(self, broker: Broker | None = None, settings: Settings | None = None) -> None:
        self.wakes: list[int] = []
        self.broker = (
            broker
            if broker is not None
            else Broker(settings or Settings(), lambda _, at_ms: self.wakes.append(at_ms))
        )
        self.frames: list[bytes] = []
        self.connection = Connection(self.broker, self.frames.append)

    def give(self, data: bytes, now_ms: int = NOW) -> list[pb.BaseCommand]:
        """Send bytes; what came out since the last call."""
        self.connection.receive(data, now_ms)
        return self.take()

    def take(self) -> list[pb.BaseCommand]:
        """What came out since the last call."""
        taken = [parse_command(frame, 0, len(frame)) for frame in self.frames]
        self.frames.clear()
        return taken
