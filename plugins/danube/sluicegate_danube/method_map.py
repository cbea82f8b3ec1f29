"""Which of Danube's methods is which operation: field numbers of its API, version 0.15.1.

Every method that a broker serves on the port for clients is named. What a later version adds is unknown until
someone has looked whether it carries messages: see `unknown_methods` in the configuration.
"""

from collections.abc import Iterator

from sluicegate.model import Method, MethodMap, Role

PRODUCERS = "/danube.ProducerService/"
SEND_MESSAGE = PRODUCERS + "SendMessage"
CONSUMERS = "/danube.ConsumerService/"
EDGE = "/danube.edge.EdgeReplicatorService/"
TOPIC_LOOKUP = "/danube.Discovery/TopicLookup"
BROKER_HEADER = "x-danube-broker-url"
"""Metadata by which a client behind a proxy names the broker that its call is for."""
INTERNAL_HEADER = "x-danube-internal-broker"
"""Metadata by which brokers name themselves to each other; Danube trusts any peer with mutual TLS."""

_ACKNOWLEDGE = Method(Role.ACKNOWLEDGE, topic=(2, 2), subscription=(3,), position=(2, 5))

_PASSING = {
    "danube.Discovery": ("TopicPartitions",),
    "danube.StorageService": ("ListSegmentDescriptors",),
    "danube.AuthService": ("Authenticate",),
    "danube.edge.EdgeReplicatorService": ("RegisterEdge", "EdgeHeartbeat"),
    "danube_schema.SchemaRegistry": (
        "RegisterSchema",
        "GetSchema",
        "GetLatestSchema",
        "ListVersions",
        "CheckCompatibility",
        "DeleteSchemaVersion",
        "SetCompatibilityMode",
        "ConfigureTopicSchema",
        "UpdateTopicValidationPolicy",
        "GetTopicSchemaConfig",
        "ListSubjects",
    ),
    "grpc.health.v1.Health": ("Check", "List", "Watch"),
    "grpc.reflection.v1.ServerReflection": ("ServerReflectionInfo",),
    "grpc.reflection.v1alpha.ServerReflection": ("ServerReflectionInfo",),
}
"""Methods that carry no message of a topic. AuthService is of brokers up to 0.9. Danube has neither gRPC's
own health checks nor its reflection, but a proxy in front of it may."""


def _passing() -> Iterator[tuple[str, Method]]:
    for service, names in _PASSING.items():
        for name in names:
            yield f"/{service}/{name}", Method(Role.PASS)


METHOD_MAP = MethodMap(
    "danube",
    {
        PRODUCERS + "CreateProducer": Method(
            Role.ATTACH_PRODUCER, topic=(3,), producer=(2,), reliable=(6,), attachment=(2,)
        ),
        SEND_MESSAGE: Method(
            Role.PUBLISH,
            topic=(2, 2),
            producer=(2, 1),
            name=(5,),
            payload=(3,),
            headers=(7,),
            key=(10,),
            schema=(9,),
        ),
        CONSUMERS + "Subscribe": Method(
            Role.SUBSCRIBE, topic=(2,), subscription=(4,), consumer=(3,), attachment=(2,)
        ),
        CONSUMERS + "ReceiveMessages": Method(
            Role.DISPATCH,
            consumer=(2,),
            payload=(3,),
            position=(2, 5),
            published=(4,),
            message_topic=(2, 2),
            message_subscription=(6,),
        ),
        CONSUMERS + "Ack": _ACKNOWLEDGE,
        CONSUMERS + "Nack": _ACKNOWLEDGE,
        EDGE + "ReplicateData": Method(
            Role.PUBLISH,
            topic=(1,),
            batch=(2,),
            payload=(2, 3),
            by_connection=True,
            headers=(2, 7),
            key=(2, 10),
            schema=(2, 9),
        ),
        TOPIC_LOOKUP: Method(Role.LOOKUP, topic=(2,)),
        "/danube.HealthCheck/HealthCheck": Method(Role.KEEP_ALIVE, attachment=(3,)),
        **dict(_passing()),
    },
    BROKER_HEADER,
)
"""Danube has no method of the role DETACH: producers and consumers stop without a call."""
