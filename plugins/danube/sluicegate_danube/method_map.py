"""Which of Danube's methods is which operation: field numbers of its API, version 0.15."""

from sluicegate.model import Method, MethodMap, Role

PRODUCERS = "/danube.ProducerService/"
CONSUMERS = "/danube.ConsumerService/"
TOPIC_LOOKUP = "/danube.Discovery/TopicLookup"
BROKER_HEADER = "x-danube-broker-url"
"""Metadata by which a client behind a proxy names the broker that its call is for."""
INTERNAL_HEADER = "x-danube-internal-broker"
"""Metadata by which brokers name themselves to each other; Danube believes whoever comes by mutual TLS."""

_ACKNOWLEDGE = Method(Role.ACKNOWLEDGE, topic=(2, 2), subscription=(3,), position=(2, 5))

METHOD_MAP = MethodMap(
    "danube",
    {
        PRODUCERS + "CreateProducer": Method(
            Role.ATTACH_PRODUCER, topic=(3,), producer=(2,), reliable=(6,), attachment=(2,)
        ),
        PRODUCERS + "SendMessage": Method(Role.PUBLISH, topic=(2, 2), producer=(2, 1), payload=(3,)),
        CONSUMERS + "Subscribe": Method(
            Role.SUBSCRIBE, topic=(2,), subscription=(4,), consumer=(3,), attachment=(2,)
        ),
        CONSUMERS + "ReceiveMessages": Method(
            Role.DISPATCH, consumer=(2,), payload=(3,), position=(2, 5), published=(4,)
        ),
        CONSUMERS + "Ack": _ACKNOWLEDGE,
        CONSUMERS + "Nack": _ACKNOWLEDGE,
        "/danube.HealthCheck/HealthCheck": Method(Role.KEEP_ALIVE, attachment=(3,)),
    },
    BROKER_HEADER,
)
"""Danube takes no leave of producers and consumers: it has no method of the role DETACH."""
