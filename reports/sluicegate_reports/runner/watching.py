"""Records the observations of one arm's clients, with their phases."""

import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from sluicegate_reports.model.observations import Event, Observation, ObservationLog, Role
from sluicegate_reports.runner import payload
from sluicegate_reports.runner.clients.base import FailedError, RefusedError
from sluicegate_reports.runner.plan import ArmPlan, ConsumerPlan, ProducerPlan


def now_us() -> int:
    """Us since 1970."""
    return time.time_ns() // 1000


def _now_since(began_ns: int) -> tuple[int, int]:
    """The time in us since 1970, and how many ns ago something began.

    The clock comes first: a process that loses its core between the two must not make the beginning look
    later than it was, or a gate that decided meanwhile would seem to have another clock.
    """
    at_us = now_us()
    return at_us, time.monotonic_ns() - began_ns


class Watch:
    """The observations of one arm; a context manager, whose end writes the rest.

    Events of a message belong to the phase in which it was sent, attachments to the current phase.
    Methods may be called from any thread.
    """

    def __init__(self, plan: ArmPlan) -> None:
        self.counts: Counter[str] = Counter()
        """Rows by kind of event, for progress; consumers' acknowledgements are `consumed`."""
        self.awaited = 0
        """Acknowledged messages of topics with a consumer."""
        self.foreign = 0
        """Received messages that the runner did not send."""
        self.phase = 0
        """Index of the current phase."""
        self._asks_delays = plan.asks_delays
        self._acknowledges_each = plan.acknowledges_each
        self._producers = [each.name for each in plan.producers]
        self._read = {each.topic for each in plan.consumers}
        self._stack = ExitStack()
        self._logs = [
            self._stack.enter_context(
                ObservationLog(Path(plan.directory), plan.run, plan.system, plan.door, phase.name)
            )
            for phase in plan.phases
        ]

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def flush(self) -> None:
        """Write full batches; may block on the disk."""
        for log in self._logs:
            log.flush()

    def attached(
        self, client: ProducerPlan | ConsumerPlan, event: Event, refusal: RefusedError | None, began_ns: int
    ) -> None:
        """A client attached, was refused, or left.

        :param began_ns: its first attempt, in monotonic time.
        """
        at_us, latency_ns = _now_since(began_ns)
        consumer = client if isinstance(client, ConsumerPlan) else None
        tells = event is Event.ATTACHED and self._acknowledges_each
        row = Observation(
            at_us,
            client.name,
            Role.CONSUMER if consumer else Role.PRODUCER,
            client.topic,
            event,
            subscription=consumer.subscription if consumer else None,
            code=refusal.code if refusal is not None else None,
            text=refusal.text or None if refusal is not None else None,
            latency_ns=latency_ns,
            acknowledges=consumer.acknowledge if consumer and tells else None,
        )
        self._add(self.phase, row)

    def sent(self, client: ProducerPlan, stamp: payload.Stamp) -> None:
        """A message is about to be given to the library."""
        self._add(stamp.phase, self._of_message(client, stamp, Event.SENT, stamp.published_us))

    def answered(
        self, client: ProducerPlan, stamp: payload.Stamp, refusal: RefusedError | None, began_ns: int
    ) -> None:
        """A message was acknowledged, refused, or got no answer.

        :param began_ns: when it was sent, by the monotonic clock.
        """
        at_us, latency_ns = _now_since(began_ns)
        event = Event.ACKNOWLEDGED
        if refusal is not None:
            event = Event.FAILED if isinstance(refusal, FailedError) else Event.REFUSED
        elif client.topic in self._read:
            self.awaited += 1
        row = self._of_message(client, stamp, event, at_us)._replace(
            latency_ns=latency_ns,
            code=refusal.code if refusal is not None else None,
            text=refusal.text or None if refusal is not None else None,
        )
        self._add(stamp.phase, row)

    def received(self, client: ConsumerPlan, content: bytes) -> None:
        """A consumer received a message."""
        self._consumed(client, content, Event.RECEIVED)

    def acknowledging(self, client: ConsumerPlan, content: bytes) -> None:
        """A consumer is about to acknowledge a message."""
        self._consumed(client, content, Event.ACKNOWLEDGED)

    def _consumed(self, client: ConsumerPlan, content: bytes, event: Event) -> None:
        stamp = payload.read(content)
        if stamp is None or stamp.producer >= len(self._producers) or stamp.phase >= len(self._logs):
            self.foreign += event is Event.RECEIVED
            return
        row = Observation(
            now_us(),
            client.name,
            Role.CONSUMER,
            client.topic,
            event,
            stamp.sequence,
            bytes=len(content),
            subscription=client.subscription,
            published=stamp.published_us,
            producer=self._producers[stamp.producer],
        )
        self._add(stamp.phase, row)

    def _of_message(
        self, client: ProducerPlan, stamp: payload.Stamp, event: Event, at_us: int
    ) -> Observation:
        return Observation(
            at_us,
            client.name,
            Role.PRODUCER,
            client.topic,
            event,
            stamp.sequence,
            bytes=client.size,
            delay_ms=(client.delay_ms or None) if self._asks_delays else None,
        )

    def _add(self, phase: int, row: Observation) -> None:
        done = row.role is Role.CONSUMER and row.event is Event.ACKNOWLEDGED
        self.counts["consumed" if done else row.event.value] += 1
        self._logs[phase].add(row)
