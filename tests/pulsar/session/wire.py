"""A Pulsar session between a client and a broker that tests play, frame by frame."""

from collections.abc import Iterable, Mapping

from tests.bench import SECOND, START
from tests.bench import Bench as AnyBench
from tests.pulsar.session import messages

from sluicegate.model import PolicyValue
from sluicegate.testing import SessionWire
from sluicegate_pulsar.cluster.brokers import Brokers
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.names import topic_name
from sluicegate_pulsar.session.session import PulsarSession
from sluicegate_pulsar.session.shared.shared import Shared

__all__ = ["SECOND", "START", "Bench", "Wire"]


class Bench(AnyBench):
    """Services whose policies know Pulsar's topic names."""

    def __init__(
        self,
        options: Mapping[str, PolicyValue] | None = None,
        plugins: Iterable[object] = (),
        /,
        **policies: PolicyValue,
    ) -> None:
        super().__init__(options, plugins, **policies)
        self.name_of = topic_name


def shared_of(bench: Bench, **options: object) -> Shared:
    """What the connections of one front share.

    :param options: of the broker's entry in the file.
    """
    entry = {"name": "p", "system": "pulsar", "bootstrap": ["b:6650"], "listen": {"port": 19_000}}
    config = PulsarConfig.model_validate(entry | options)
    brokers = Brokers(config, {})
    brokers.start()
    return Shared(config, bench, brokers)


class Wire(SessionWire[PulsarSession]):
    """A Pulsar session, and both ends of it.

    :param bench: shared by all sessions of a test.
    :param shared: that of another wire, for a second connection to the same front.
    :param version: what the client calls itself.
    :param is_open: False for a client that has yet to say who it is.
    :param options: of the broker's entry in the file.
    """

    def __init__(
        self,
        bench: Bench,
        shared: Shared | None = None,
        peer: str = "10.0.0.1:5000",
        version: str = messages.PYTHON,
        is_open: bool = True,
        **options: object,
    ) -> None:
        self.shared = shared or shared_of(bench, **options)
        super().__init__(PulsarSession(self.shared, peer, self.shared.config.addresses))
        if is_open:
            self.client_sends(messages.connect(version))
            self.broker_sends(messages.connected())
            self.sent_up()
            self.sent_down()

    def sent_up(self) -> list[bytes]:
        """Frames that reached the broker since the last call."""
        found, self.upstream = messages.split(self.upstream)
        return found

    def sent_down(self) -> list[bytes]:
        """Frames that reached the client since the last call."""
        found, self.downstream = messages.split(self.downstream)
        return found

    def forwarded(self) -> list[pb.BaseCommand]:
        """Commands that reached the broker since the last call."""
        return [messages.parse(frame) for frame in self.sent_up()]

    def answered(self) -> list[pb.BaseCommand]:
        """Commands that reached the client since the last call."""
        return [messages.parse(frame) for frame in self.sent_down()]
