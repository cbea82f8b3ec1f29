"""The Python client with the policies in its process."""

import re
from concurrent.futures import Future
from inspect import BoundArguments, signature
from threading import Event
from time import monotonic_ns
from typing import Any

import pulsar

from sluicegate.client.open_policies import OpenPolicies, Policies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.client.sync import finish
from sluicegate.model import ANONYMOUS, OperationKind
from sluicegate_pulsar.client.consumer import Consumer, Reader, listening
from sluicegate_pulsar.client.exceptions import error
from sluicegate_pulsar.client.producer import Producer
from sluicegate_pulsar.names import topic_name

_SUBSCRIBE = signature(pulsar.Client.subscribe)
_CREATE_READER = signature(pulsar.Client.create_reader)
_MS = 1_000_000
_TIMEOUT_MS = 30_000
"""The client's `send_timeout_millis` if unset."""


class Client(pulsar.Client):  # type: ignore[misc]  # pulsar-client has no types
    """The original's client, whose producers and consumers apply the policies.

    :param policies: an engine, the path of a policy file, or the URL of a gateway's admin endpoint.
    :param broker: the cluster's entry in that file; by default the first one.
    :param principal: whom it logs in as, which only the broker can tell from a token.
    :raises ConfigErrors: if the file has errors.
    """

    def __init__(
        self,
        *args: Any,
        policies: Policies,
        broker: str | None = None,
        principal: str = ANONYMOUS,
        **options: Any,
    ) -> None:
        self._open_policies = OpenPolicies(policies, "pulsar", broker)
        try:
            super().__init__(*args, **options)
        except BaseException:
            self._open_policies.close()
            raise
        self._principal = principal
        self._all_policed: list[PolicedClient] = []
        """Its open producers and consumers."""
        self._never = Event()

    def create_producer(self, topic: str, *args: Any, **options: Any) -> Producer:
        """Open a producer, as the original, once there is a place on its topic.

        :raises pulsar.exceptions.ProducerBusy: if there is none.
        """
        patience_ms = options.get("send_timeout_millis", _TIMEOUT_MS)
        policed = self._policed(options.get("producer_name") or "", patience_ms)
        full = topic_name(topic).full
        try:
            self._attach(policed, OperationKind.ATTACH_PRODUCER, full)
        except RefusedError as refused:
            raise error(refused) from refused
        try:
            return Producer(super().create_producer(topic, *args, **options), policed, full)
        except BaseException:
            policed.end(monotonic_ns())
            raise

    def subscribe(self, topic: Any, subscription_name: str, *args: Any, **options: Any) -> Consumer:
        """Open a consumer, as the original, once there is a place on each of its topics.

        :raises pulsar.exceptions.ConsumerBusy: if there is none.
        """
        policed = self._policed(options.get("consumer_name") or "", None)
        topics = [] if isinstance(topic, re.Pattern) else [topic] if isinstance(topic, str) else topic
        try:
            for each in topics:
                full = topic_name(each).full
                self._attach(policed, OperationKind.ATTACH_CONSUMER, full, subscription_name)
            bound = _SUBSCRIBE.bind(self, topic, subscription_name, *args, **options)
            opened = _listening(bound, "message_listener")
            original = super().subscribe(*bound.args[1:], **bound.kwargs)
        except RefusedError as refused:
            policed.end(monotonic_ns())
            raise error(refused) from refused
        except BaseException:
            policed.end(monotonic_ns())
            raise
        consumer = Consumer(original, policed)
        opened.set_result(consumer)
        self._consumers[self._consumers.index(original)] = consumer  # the original's list of what is open
        return consumer

    def create_reader(self, topic: str, *args: Any, **options: Any) -> Reader:
        """Open a reader, as the original, once there is a place for a consumer on its topic.

        :raises pulsar.exceptions.ConsumerBusy: if there is none.
        """
        policed = self._policed(options.get("reader_name") or "", None)
        try:
            self._attach(policed, OperationKind.ATTACH_CONSUMER, topic_name(topic).full)
            bound = _CREATE_READER.bind(self, topic, *args, **options)
            opened = _listening(bound, "reader_listener")
            original = super().create_reader(*bound.args[1:], **bound.kwargs)
        except RefusedError as refused:
            policed.end(monotonic_ns())
            raise error(refused) from refused
        except BaseException:
            policed.end(monotonic_ns())
            raise
        reader = Reader(original, policed)
        opened.set_result(reader)
        self._consumers[self._consumers.index(original)] = reader  # the original's list of what is open
        return reader

    def close(self) -> None:
        """Close it with its producers and consumers, as the original."""
        try:
            super().close()
        finally:
            for policed in self._all_policed:
                policed.end(monotonic_ns())  # the original closes its producers and consumers by itself
            self._open_policies.close()

    def _policed(self, name: str, patience_ms: int | None) -> PolicedClient:
        patience_ns = patience_ms * _MS if patience_ms else None
        policed = PolicedClient(self._open_policies.engine, self._principal, name, patience_ns)
        self._all_policed = [each for each in self._all_policed if not each.is_ended] + [policed]
        return policed

    def _attach(
        self, policed: PolicedClient, kind: OperationKind, topic: str, subscription: str = ""
    ) -> None:
        finish(policed.engine, lambda turn: policed.attaching(turn, kind, topic, subscription), self._never)


def _listening(bound: BoundArguments, name: str) -> "Future[Any]":
    """Have an application's listener called once messages may pass; gives it what is opened.

    :param bound: arguments of the original's method.
    :param name: of the argument.
    """
    opened: Future[Any] = Future()
    if bound.arguments.get(name) is not None:
        bound.arguments[name] = listening(bound.arguments[name], opened)
    return opened
