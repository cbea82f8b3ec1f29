"""The Python client with the policies in its process."""

import re
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from inspect import BoundArguments, signature
from threading import Event
from time import monotonic_ns
from typing import Any, TypeVar

import pulsar

from sluicegate.client.open_policies import OpenPolicies, Policies
from sluicegate.client.policed_client import PolicedClient
from sluicegate.client.refused import RefusedError
from sluicegate.client.sync import finish
from sluicegate.model import ANONYMOUS, OperationKind
from sluicegate_pulsar.client.consumer import Consumer, Reader, listening
from sluicegate_pulsar.client.exceptions import error
from sluicegate_pulsar.client.opened import SEND_TIMEOUT_MS, Opened
from sluicegate_pulsar.client.producer import Producer
from sluicegate_pulsar.client.table_view import TableView
from sluicegate_pulsar.names import topic_name

_SUBSCRIBE = signature(pulsar.Client.subscribe)
_CREATE_READER = signature(pulsar.Client.create_reader)
_Receiver = TypeVar("_Receiver", Consumer, Reader)


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
        with self._open_policies.closed_on_error():
            super().__init__(*args, **options)
        self._opened = Opened(self._open_policies, principal)
        self._never = Event()

    def create_producer(self, topic: str, *args: Any, **options: Any) -> Producer:
        """Open a producer, as the original, once there is a place on its topic.

        :raises pulsar.exceptions.ProducerBusy: if there is none.
        """
        patience_ms = options.get("send_timeout_millis", SEND_TIMEOUT_MS)
        policed = self._opened.new(options.get("producer_name"), patience_ms)
        full = topic_name(topic).full
        with _opening(policed):
            self._attach(policed, OperationKind.ATTACH_PRODUCER, full)
            return Producer(super().create_producer(topic, *args, **options), policed, full)

    def subscribe(self, topic: Any, subscription_name: str, *args: Any, **options: Any) -> Consumer:
        """Open a consumer, as the original, once there is a place on each of its topics.

        :raises pulsar.exceptions.ConsumerBusy: if there is none.
        """
        policed = self._opened.new(options.get("consumer_name"))
        topics = [] if isinstance(topic, re.Pattern) else [topic] if isinstance(topic, str) else topic
        with _opening(policed):
            for each in topics:
                full = topic_name(each).full
                self._attach(policed, OperationKind.ATTACH_CONSUMER, full, subscription_name)
            bound = _SUBSCRIBE.bind(self, topic, subscription_name, *args, **options)
            opened = _listening(bound, "message_listener")
            original = super().subscribe(*bound.args[1:], **bound.kwargs)
        return self._replaced(original, Consumer(original, policed), opened)

    def create_reader(self, topic: str, *args: Any, **options: Any) -> Reader:
        """Open a reader, as the original, once there is a place for a consumer on its topic.

        :raises pulsar.exceptions.ConsumerBusy: if there is none.
        """
        policed = self._opened.new(options.get("reader_name"))
        with _opening(policed):
            self._attach(policed, OperationKind.ATTACH_CONSUMER, topic_name(topic).full)
            bound = _CREATE_READER.bind(self, topic, *args, **options)
            opened = _listening(bound, "reader_listener")
            original = super().create_reader(*bound.args[1:], **bound.kwargs)
        return self._replaced(original, Reader(original, policed), opened)

    def create_table_view(self, topic: str, *args: Any, **options: Any) -> TableView:
        """Open a table view, as the original, once there is a place for a consumer on its topic.

        :raises pulsar.exceptions.ConsumerBusy: if there is none.
        """
        policed = self._opened.new(None)
        full = topic_name(topic).full
        with _opening(policed):
            self._attach(policed, OperationKind.ATTACH_CONSUMER, full)
            view = TableView(super().create_table_view(topic, *args, **options), policed, full)
        self._table_view = view
        return view

    def close(self) -> None:
        """Close it with its producers and consumers, as the original."""
        try:
            super().close()
        finally:
            self._opened.close()

    def _replaced(self, original: object, wrapper: _Receiver, opened: "Future[Any]") -> _Receiver:
        """Put a consumer or reader in place of the original's in its list of what is open."""
        opened.set_result(wrapper)
        self._consumers[self._consumers.index(original)] = wrapper
        return wrapper

    def _attach(
        self, policed: PolicedClient, kind: OperationKind, topic: str, subscription: str = ""
    ) -> None:
        finish(policed.engine, lambda turn: policed.attaching(turn, kind, topic, subscription), self._never)


@contextmanager
def _opening(policed: PolicedClient) -> Iterator[None]:
    """Give its places back if it cannot be opened.

    :raises pulsar.exceptions.PulsarException: if the policies refuse it.
    """
    try:
        yield
    except BaseException as problem:
        policed.end(monotonic_ns())
        if isinstance(problem, RefusedError):
            raise error(problem) from problem
        raise


def _listening(bound: BoundArguments, name: str) -> "Future[Any]":
    """Have an application's listener called once messages may pass; gives it what is opened.

    :param bound: arguments of the original's method.
    :param name: of the argument.
    """
    opened: Future[Any] = Future()
    if bound.arguments.get(name) is not None:
        bound.arguments[name] = listening(bound.arguments[name], opened)
    return opened
