"""The interface to client libraries, so that one test runs with each of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.waiting import LONG_S, until

ANSWER_S = LONG_S


class Form(StrEnum):
    """How a producer puts messages into frames."""

    SINGLE = "single"
    BATCHED = "batched"
    CHUNKED = "chunked"
    COMPRESSED = "compressed"
    ENCRYPTED = "encrypted"
    TRANSACTIONAL = "transactional"


EVERY_FORM = [
    (library, form) for library in ("python", "java") for form in Form if form is not Form.TRANSACTIONAL
]
"""Client libraries and what both can produce, as parameters of the fixture `family` and `form`."""


class Subscription(StrEnum):
    """Types of subscriptions, as the Java client names them."""

    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "Key_Shared"


@dataclass(frozen=True, slots=True)
class Published:
    """What a producer was told of one message; either it is stored at `entry`, or it failed."""

    value: str
    entry: tuple[int, int] | None
    """Ledger and entry; None if it failed."""
    error: str = ""
    """The library's name of the error."""
    text: str = ""
    """What the library says beyond the name, if anything."""
    at_ms: int = 0
    """When, in ms since 1970."""


@dataclass(frozen=True, slots=True)
class Received:
    """One delivery of a message to a consumer; times in ms since 1970."""

    value: str
    key: str
    topic: str
    entry: tuple[int, int]
    published_ms: int
    redelivered: int
    properties: Mapping[str, str]
    at_ms: int


@dataclass(frozen=True, slots=True)
class Keys:
    """A pair of keys for end-to-end encryption, as PEM files."""

    public: Path
    private: Path

    @classmethod
    def make(cls, directory: Path) -> "Keys":
        """A new pair in an existing directory."""
        key = rsa.generate_private_key(65_537, 2048)
        keys = cls(directory / "public.pem", directory / "private.pem")
        keys.public.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        keys.private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        return keys


class RefusedError(Exception):
    """A client could not attach, or gave up.

    :param error: the library's name of the error.
    :param text: what it says beyond the name, if anything.
    """

    def __init__(self, error: str, text: str = "") -> None:
        super().__init__(f"{error}: {text}")
        self.error = error
        self.text = text


class Sending(Protocol):
    """A producer at work; it stays attached after its last message, until it is closed."""

    @property
    def published(self) -> list[Published]:
        """What it was told so far, in the order of the answers."""

    def stop(self) -> None:
        """Send no further message; those that are sent may still be answered."""

    def close(self) -> list[Published]:
        """Wait until all is answered, close the producer, and return what it was told."""


class Receiving(Protocol):
    """A consumer at work."""

    @property
    def received(self) -> list[Received]:
        """All deliveries so far, in the order of their arrival."""

    def close(self) -> object:
        """Close the consumer; its subscription stays."""


class Family(Protocol):
    """One client library. Each producer and each consumer gets a client, so a connection, of its own."""

    name: str

    def produce(
        self,
        url: str,
        topic: str,
        values: Sequence[str],
        *,
        form: Form = Form.SINGLE,
        keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        deliver_after_ms: int | None = None,
        deliver_at_ms: int | None = None,
        interval_ms: int = 0,
        client: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Sending:
        """Attach a producer and have it send values without waiting for answers.

        It gives no message up, whatever a library's default: a stalled machine may take long to answer.

        :param keys: keys of the messages, in turn.
        :param interval_ms: pause after each message; the producer is returned before all are sent.
        :param client: further settings of the client, by the library's own names.
        :param settings: further settings of the producer, by the library's own names.
        :raises RefusedError: if it cannot attach.
        """

    def consume(
        self,
        url: str,
        topic: str,
        subscription: str,
        kind: Subscription = Subscription.SHARED,
        *,
        nacks: int = 0,
        acknowledge: bool = True,
        client: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Receiving:
        """Attach a consumer; a new subscription starts at the topic's first message.

        :param nacks: so many deliveries are refused before the first is acknowledged.
        :param client: as in `produce`.
        :param settings: further settings of the consumer, by the library's own names.
        :raises RefusedError: if it cannot attach.
        """

    def read(self, url: str, topic: str) -> Receiving:
        """Attach a reader that starts at the topic's first message."""

    def close(self) -> None:
        """End what is left."""


def numbered(count: int, lane: str = "m", *, pad: int = 0) -> list[str]:
    """Values that can be told apart: `m:0`, `m:1`, …, each with `pad` characters more."""
    return [f"{lane}:{number}{' ' * pad}" for number in range(count)]


def collect(consumer: Receiving, count: int, timeout_s: float = ANSWER_S) -> list[Received]:
    """What a consumer got once there are at least so many deliveries.

    :raises TimeoutError: if there are fewer in time.
    """
    until(lambda: len(consumer.received) >= count, f"{count} deliveries", timeout_s)
    return consumer.received
