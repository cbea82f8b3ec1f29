"""The Java client, steered over the standard streams of one process (java/Clients.java)."""

import itertools
import json
import subprocess
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.pulsar.real.support.broker import archived_pulsar
from tests.pulsar.real.support.family import (
    ANSWER_S,
    Form,
    Keys,
    Published,
    Received,
    RefusedError,
    Subscription,
)
from tests.real.java import compile_java, frugal_jvm
from tests.waiting import until

from sluicegate_reports.runner.brokers import jars
from sluicegate_reports.runner.brokers.pulsar import LOGGING, OPENED

_SOURCE = Path(__file__).parents[1] / "java" / "Clients.java"
# Small enough that values of some kilobytes are cut.
CHUNK_BYTES = 1_000
_PER_TRANSACTION = 5
_FORMS: dict[Form, dict[str, Any]] = {
    Form.SINGLE: {"batchingEnabled": False},
    Form.BATCHED: {"batchingEnabled": True, "batchingMaxPublishDelayMicros": 100_000},
    Form.CHUNKED: {"batchingEnabled": False, "chunkingEnabled": True, "chunkMaxMessageSize": CHUNK_BYTES},
    Form.COMPRESSED: {
        "batchingEnabled": True,
        "batchingMaxPublishDelayMicros": 100_000,
        "compressionType": "LZ4",
    },
    Form.ENCRYPTED: {"batchingEnabled": False},
    Form.TRANSACTIONAL: {"batchingEnabled": False, "sendTimeoutMs": 0},
}

Event = dict[str, Any]


class JavaFamily:
    """Exception classes by their simple names (`ProducerBusyException`), and their texts.

    :param classes: an empty directory for compiled classes.
    :param keys: what encrypted messages are encrypted with.
    """

    name = "java"

    def __init__(self, classes: Path, keys: Keys) -> None:
        classpath = compile_java(jars.classpath(jars.PULSAR), classes, _SOURCE)
        self._keys = keys
        self._process = subprocess.Popen(
            [
                *(jars.java(), *frugal_jvm(256), "-XX:MaxDirectMemorySize=256m", *archived_pulsar()),
                *(f"-Dlog4j2.configurationFile={LOGGING}", "-Dsluicegate.log.level=error"),
                *(f"--add-opens={package}=ALL-UNNAMED" for package in OPENED),
                *("-cp", classpath, "Clients"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._numbers = itertools.count(1)
        self._writing = threading.Lock()
        self._events: dict[int, list[Event]] = defaultdict(list)
        self._reader = threading.Thread(target=self._read, name="java clients", daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End the process."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(ANSWER_S)
        self._reader.join(ANSWER_S)

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
        shared: str | None = None,
    ) -> "JavaClient":
        """As `Family.produce`; transactions have five messages each.

        :param shared: name of a client, so a connection, that several producers use.
        """
        transactional = form is Form.TRANSACTIONAL
        one = JavaClient(
            self,
            "produce",
            client=_client(url, client) | ({"enableTransaction": True} if transactional else {}),
            producer={"topicName": topic, "sendTimeoutMs": 1_000 * ANSWER_S}
            | _FORMS[form]
            | dict(settings or {}),
            public_key=self._keys.public.as_uri() if form is Form.ENCRYPTED else None,
            shared=shared,
            per_transaction=_PER_TRANSACTION if transactional else 0,
            values=list(values),
            keys=list(keys),
            properties=dict(properties or {}),
            deliver_after_ms=deliver_after_ms,
            deliver_at_ms=deliver_at_ms,
            interval_ms=interval_ms,
        )
        one.attached()
        return one

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
    ) -> "JavaClient":
        """As `Family.consume`."""
        own = {
            "topicNames": [topic],
            "subscriptionName": subscription,
            "subscriptionType": str(kind),
            "subscriptionInitialPosition": "Earliest",
            "negativeAckRedeliveryDelayMicros": 200_000,
        }
        one = JavaClient(
            self,
            "consume",
            client=_client(url, client),
            consumer=own | dict(settings or {}),
            private_key=self._keys.private.as_uri(),
            nacks=nacks,
            acknowledge=acknowledge,
        )
        one.attached()
        return one

    def read(self, url: str, topic: str) -> "JavaClient":
        """As `Family.read`."""
        one = JavaClient(
            self,
            "read",
            client=_client(url, None),
            reader={"topicNames": [topic]},
            private_key=self._keys.private.as_uri(),
        )
        one.attached()
        return one

    def ask(self, what: str, number: int = 0, **fields: object) -> tuple[int, list[Event]]:
        """Have something done.

        :return: its number, and the list that its events are appended to.
        """
        number = number or next(self._numbers)
        stream = self._process.stdin
        assert stream is not None
        with self._writing:
            stream.write(json.dumps({"id": number, "do": what, **fields}) + "\n")
            stream.flush()
        return number, self._events[number]

    def _read(self) -> None:
        stream = self._process.stdout
        assert stream is not None
        for line in stream:
            if line.startswith("{"):
                event = json.loads(line)
                self._events[event["id"]].append(event)


class JavaClient:
    """One producer or consumer in the Java process."""

    def __init__(self, family: JavaFamily, what: str, **fields: Any) -> None:
        self._family = family
        self._sends = what == "produce"
        self._values: list[str] = fields.get("values", [])
        self._number, self._events = family.ask(what, **fields)

    def attached(self) -> None:
        """Return once it is; raises as `Family.produce`."""
        until(lambda: self._told("ready", "done"), "attached")
        self._raise_error()

    @property
    def published(self) -> list[Published]:
        """As `Sending.published`; messages of an aborted transaction have failed."""
        events = list(self._events)
        found = [self._published(event) for event in events if "message" in event]
        for aborted in (event for event in events if "aborted" in event):
            lost = self._values[aborted["aborted"] : aborted["aborted"] + _PER_TRANSACTION]
            found = [one for one in found if one.entry is None or one.value not in lost]
            known = {one.value for one in found}
            found += [
                Published(value, None, aborted["because"], aborted["text"])
                for value in lost
                if value not in known
            ]
        return found

    @property
    def received(self) -> list[Received]:
        """As `Receiving.received`."""
        return [
            Received(
                event["value"],
                event["key"],
                event["topic"],
                (event["ledger"], event["entry"]),
                event["published_ms"],
                event["redelivered"],
                event["properties"],
                event["at_ms"],
            )
            for event in list(self._events)
            if "value" in event
        ]

    def close(self) -> list[Published]:
        """As `Sending.close` and `Receiving.close`."""
        if self._sends:
            until(lambda: self._told("answered", "done"), "all is answered", 2 * ANSWER_S)
        self.stop()
        until(lambda: self._told("done"), "closed")
        self._raise_error()
        return self.published

    def abandon(self) -> None:
        """Stop without waiting for answers."""
        self.stop()

    def stop(self) -> None:
        """As `Sending.stop`."""
        self._family.ask("stop", self._number)

    def _published(self, event: Event) -> Published:
        value = self._values[event["message"]]
        if "failed" in event:
            return Published(value, None, event["failed"], event["text"], event["at_ms"])
        return Published(value, (event["ledger"], event["entry"]), at_ms=event["at_ms"])

    def _told(self, *names: str) -> bool:
        return any(name in event for event in list(self._events) for name in names)

    def _raise_error(self) -> None:
        for event in list(self._events):
            if "error" in event:
                raise RefusedError(event["error"], event["text"])


def _client(url: str, more: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"serviceUrl": url, "operationTimeoutMs": 60_000, "statsIntervalSeconds": 0} | dict(more or {})
