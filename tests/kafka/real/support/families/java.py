"""The Java client, steered over the standard streams of one process (java/Clients.java)."""

import itertools
import json
import subprocess
import threading
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.kafka.real.support.broker import archived_kafka
from tests.kafka.real.support.families.base import ANSWER_S, Mode, Received, Settings, values_of
from tests.kafka.real.support.history import ClientLog
from tests.real.java import compile_java, frugal_jvm
from tests.waiting import until

from sluicegate_reports.runner.brokers import jars

_SOURCE = Path(__file__).parents[2] / "java" / "Clients.java"
_LOGGING = Path(__file__).parents[1] / "log4j2.properties"
_MODES: dict[Mode, dict[str, str]] = {
    Mode.PLAIN: {"enable.idempotence": "false"},
    Mode.IDEMPOTENT: {"enable.idempotence": "true"},
    Mode.TRANSACTIONAL: {"enable.idempotence": "true"},
}


class JavaFamily:
    """The Java client's exception classes: `PolicyViolationException`.

    :param classes: a directory for compiled classes.
    """

    name = "java"

    def __init__(self, classes: Path) -> None:
        classpath = compile_java(jars.classpath(jars.KAFKA), classes, _SOURCE)
        self._process = subprocess.Popen(
            [
                *(jars.java(), *frugal_jvm(256), *archived_kafka()),
                *(f"-Dlog4j2.configurationFile={_LOGGING}", "-cp", classpath, "Clients"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._numbers = itertools.count(1)
        self._events: dict[int, list[dict[str, Any]]] = defaultdict(list)
        self._reader = threading.Thread(target=self._read, name="java clients", daemon=True)
        self._reader.start()

    def close(self) -> None:
        """End the process."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(ANSWER_S)
        self._reader.join(ANSWER_S)

    def publish(
        self,
        bootstrap: str,
        topic: str,
        pads: Sequence[int],
        *,
        mode: Mode = Mode.PLAIN,
        per_transaction: int = 0,
        lane: str = "",
        timestamp_ms: int | None = None,
        settings: Settings | None = None,
    ) -> ClientLog:
        """As `Family.publish`."""
        log = ClientLog()
        lane = lane or self.name
        values = [value.decode() for value in values_of(log, lane, pads)]
        options = {"bootstrap.servers": bootstrap, "client.id": lane} | _MODES[mode] | dict(settings or {})
        if mode is Mode.TRANSACTIONAL:
            options["transactional.id"] = f"{topic}-{lane}"
        events = self.ask(
            "publish",
            settings=options,
            topic=topic,
            key=lane,
            timestamp_ms=timestamp_ms,
            values=values,
            per_transaction=per_transaction if mode is Mode.TRANSACTIONAL else 0,
        )[1]
        until(lambda: any("done" in event for event in events), "all sends answered", 2 * ANSWER_S)
        for event in events:
            _note(log, event, per_transaction)
        return log

    def member(
        self, bootstrap: str, topics: Sequence[str], group: str, settings: Settings | None = None
    ) -> "JavaMember":
        """As `Family.member`."""
        options = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"}
        if group:
            options["group.id"] = group
        return JavaMember(self, topics, options | {k: str(v) for k, v in (settings or {}).items()})

    def commit(self, bootstrap: str, topic: str, group: str, offset: int) -> str:
        """As `Family.commit`."""
        settings = {"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": "false"}
        events = self.ask("commit", settings=settings, topic=topic, offset=offset)[1]
        until(lambda: any("done" in event for event in list(events)), "commit answered")
        errors = [f"{event['error']}: {event['text']}" for event in events if "error" in event]
        return errors[0] if errors else ""

    def ask(self, what: str, number: int = 0, **fields: object) -> tuple[int, list[dict[str, Any]]]:
        """Have something done.

        :return: its number, and the list that its events are appended to.
        """
        number = number or next(self._numbers)
        stream = self._process.stdin
        assert stream is not None
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


def _note(log: ClientLog, event: dict[str, Any], per_transaction: int) -> None:
    """Take an event into a log; aborted transactions take back what was confirmed in them."""
    if "failed" in event:
        log.acked.pop(log.sent[event["record"]], None)
        log.error(log.sent[event["record"]], f"{event['failed']}: {event['text']}")
    elif "record" in event:
        log.ack(log.sent[event["record"]], event["partition"], event["offset"])
    elif "aborted" in event:
        for entry in log.sent[event["aborted"] : event["aborted"] + per_transaction]:
            log.acked.pop(entry, None)
            if entry not in log.errored:
                log.error(entry, f"{event['because']}: {event['text']}")
    elif "error" in event:
        raise AssertionError(f"the Java producer gave up: {event}")


class JavaMember:
    """One consumer in the Java process."""

    def __init__(self, family: JavaFamily, topics: Sequence[str], options: Settings) -> None:
        self._family = family
        self._number, self._events = family.ask("consume", topics=list(topics), settings=dict(options))

    @property
    def errors(self) -> list[str]:
        """As `Member.errors`."""
        return [f"{event['error']}: {event['text']}" for event in list(self._events) if "error" in event]

    @property
    def assigned(self) -> int:
        """As `Member.assigned`."""
        changes = [event for event in list(self._events) if "assigned" in event]
        return int(changes[-1]["assigned"]) if changes else -1

    @property
    def received(self) -> list[Received]:
        """As `Member.received`."""
        return [
            Received(topic, partition, offset, value.encode(), timestamp_ms, event["at_ms"])
            for event in list(self._events)
            for topic, partition, offset, value, timestamp_ms in event.get("received", ())
        ]

    def close(self) -> None:
        """As `Member.close`."""
        self._family.ask("stop", self._number)
        until(lambda: any("done" in event for event in list(self._events)), "consumer closed")
