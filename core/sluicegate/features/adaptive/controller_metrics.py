"""The controller's metrics: Pulsar's names with underscores, and a few of this product's own."""

from collections.abc import Iterable, Sequence

from sluicegate.engine.plugin_metrics import Metrics
from sluicegate.features.adaptive.readings import SourceReading
from sluicegate.features.adaptive.topic import ThrottledTopic

BROKER = "pulsar_broker_adaptive_throttle_"
TOPIC = "pulsar_broker_topic_adaptive_throttle_"
OWN = "sluicegate_adaptive_throttle_"
SOURCE = "sluicegate_pressure_source_"
MOST_TOPICS = 1_000
"""Most topics with their own series."""


class ControllerMetrics:
    """The metrics of an enabled controller; times are milliseconds.

    :param metrics: the registry.
    """

    def __init__(self, metrics: Metrics) -> None:
        gauge, counter = metrics.gauge, metrics.counter
        self.memory = gauge(f"{BROKER}memory_pressure", "Memory pressure, 0 to 1.")
        self.active = gauge(f"{BROKER}active_topic_count", "Topics with an active adaptive throttle.")
        self.activations = counter(f"{BROKER}activation_count", "Activations of adaptive throttles.")
        self.evaluated = gauge(
            f"{BROKER}controller_last_evaluation_timestamp",
            "When the controller last tried to evaluate, milliseconds since 1970.",
        )
        self.duration = gauge(
            f"{BROKER}controller_evaluation_duration", "Duration of the last evaluation in milliseconds."
        )
        self.failures = counter(f"{BROKER}controller_evaluation_failure_count", "Evaluations that failed.")
        self.succeeded = gauge(
            f"{OWN}last_success_timestamp", "When an evaluation last succeeded, milliseconds since 1970."
        )
        self.observing = gauge(f"{OWN}observe_only", "1 while adaptive throttling only observes.")
        self.would = gauge(f"{OWN}would_throttle", "Topics that would be throttled without observe-only.")
        self.topic_failures = counter(f"{OWN}topic_failures", "Failed evaluations of single topics.")
        self.refused = counter(
            f"{OWN}settings_refused", "Changes of settings that were refused because they conflict."
        )
        self._sources = (
            gauge(f"{SOURCE}known", "1 if the last reading of the source gave a value.", ("source",)),
            gauge(f"{SOURCE}failures", "Readings of the source that gave no value.", ("source",)),
        )
        for each in (self.activations, self.failures, self.topic_failures, self.refused):
            each.inc(0)  # start at 0, so that an alert sees an increase with the first event
        self._named: frozenset[str] = frozenset()
        self._metrics = metrics
        self._of_topics: TopicMetrics | None = None

    def read(self, readings: Sequence[SourceReading]) -> None:
        """Publish the state of the sources that this worker reads, and remove the others."""
        known, failures = self._sources
        names = frozenset(reading.source.name for reading in readings)
        if self._named - names:
            known.clear()
            failures.clear()
        self._named = names
        for reading in readings:
            known.set(float(reading.known), reading.source.name)
            failures.set(reading.failures, reading.source.name)

    def topics(self, topics: Iterable[ThrottledTopic], *, enabled: bool) -> None:
        """Publish the six series of each topic, or remove them."""
        if enabled:
            if self._of_topics is None:
                self._of_topics = TopicMetrics(self._metrics)
            self._of_topics.publish(topics)
        elif self._of_topics is not None:
            self._of_topics.clear()
            self._of_topics = None


class TopicMetrics:
    """Six series for each topic.

    :param metrics: the registry.
    """

    def __init__(self, metrics: Metrics) -> None:
        texts = {
            "active": "1 while the topic is throttled adaptively.",
            "natural_publish_rate": "Messages per second published while nothing holds them.",
            "effective_publish_rate": "Messages per second allowed; the natural rate while not throttled.",
            "memory_pressure": "Memory pressure, 0 to 1.",
            "backlog_pressure": "Pressure of the topic's backlog, 0 to 1.",
            "rate_reduction_ratio": "Effective by natural rate; 1 while not throttled.",
        }
        self._gauges = [metrics.gauge(f"{TOPIC}{name}", text, ("topic",)) for name, text in texts.items()]
        self._named: set[str] = set()

    def publish(self, topics: Iterable[ThrottledTopic]) -> None:
        """Set the series of the first 1,000 topics, and remove those of other topics."""
        chosen = {topic.name: topic for topic, _ in zip(topics, range(MOST_TOPICS), strict=False)}
        if self._named - chosen.keys():
            self.clear()
        self._named = set(chosen)
        for topic in chosen.values():
            natural = topic.natural.messages_per_s
            effective = float(topic.messages_per_s) if topic.active else natural
            numbers = (
                float(topic.active),
                natural,
                effective,
                *topic.memory_and_backlog,
                effective / natural if topic.active and natural > 0 else 1.0,
            )
            for gauge, number in zip(self._gauges, numbers, strict=True):
                gauge.set(number, topic.name)

    def clear(self) -> None:
        """Remove all series."""
        for gauge in self._gauges:
            gauge.clear()
