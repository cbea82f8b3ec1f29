"""Brokers of system `mqtt`: policies about what clients of MQTT 3.1, 3.1.1 and 5 publish."""

from typing import Literal

from sluicegate.api import BaseDriver, BaseFront, BrokerConfig, Listener, Services, TopicName, hookimpl
from sluicegate_mqtt.session import MqttSession


class MqttConfig(BrokerConfig):
    """The entry under `brokers:`, chosen by `system: mqtt`."""

    system: Literal["mqtt"]


class MqttFront(BaseFront):
    """One configured broker."""

    def __init__(self, config: MqttConfig) -> None:
        self._config = config

    async def start(self, services: Services) -> None:
        """Open the listener; its clients are connected to one of the `bootstrap` addresses."""
        self._services = services
        listen, bootstrap = self._config.listen, self._config.bootstrap
        upstream = tuple((each.host, each.port) for each in bootstrap)
        await services.listen(Listener("bootstrap", listen.host, listen.port, upstream))

    def session(self, listener: Listener, peer: str, now_ns: int) -> MqttSession:
        """The session of a client."""
        return MqttSession(self._services, frozenset(self._config.exempt.principals), peer)


class MqttDriver(BaseDriver):
    """The kind of broker."""

    system = "mqtt"
    config_model = MqttConfig
    capabilities = dict.fromkeys(
        ("max_producers_per_topic", "max_message_size", "max_publish_rate", "max_publish_rate_bytes"),
        "emulated",
    ) | dict.fromkeys(
        (
            "max_subscriptions_per_topic",
            "max_consumers_per_topic",
            "max_consumers_per_subscription",
            "max_delivery_delay",
            "fixed_delivery_delay",
        ),
        "not applicable",
    )

    def name_of(self, topic: str, config: MqttConfig) -> TopicName:
        """The namespace is what precedes the first slash."""
        namespace, slash, _ = topic.partition("/")
        return TopicName(topic, namespace if slash and namespace else "default")

    def front(self, config: MqttConfig) -> MqttFront:
        """The front of one entry."""
        return MqttFront(config)


@hookimpl
def sluicegate_broker() -> BaseDriver:
    """Add the kind of broker."""
    return MqttDriver()
