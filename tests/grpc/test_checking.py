"""A method map that does not fit its service is refused when it is loaded."""

import re
from typing import Any, Literal

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.descriptor import ServiceDescriptor
from tests.grpc.lab import MAP, engine

from sluicegate.model import Method, MethodMap, Role
from sluicegate_grpc import aio, sync
from sluicegate_grpc.checking import MethodMapError, check

P = "/shop.Orders/"
PUBLISH = Method(Role.PUBLISH, topic=(1,), payload=(2,))
FIELD = descriptor_pb2.FieldDescriptorProto
_TYPES = {
    "string": FIELD.TYPE_STRING,
    "bytes": FIELD.TYPE_BYTES,
    "uint64": FIELD.TYPE_UINT64,
    "int32": FIELD.TYPE_INT32,
    "uint32": FIELD.TYPE_UINT32,
    "sint32": FIELD.TYPE_SINT32,
    "int64": FIELD.TYPE_INT64,
    "sint64": FIELD.TYPE_SINT64,
    "fixed32": FIELD.TYPE_FIXED32,
    "fixed64": FIELD.TYPE_FIXED64,
    "double": FIELD.TYPE_DOUBLE,
    "bool": FIELD.TYPE_BOOL,
    "Order": FIELD.TYPE_MESSAGE,
}

SHORT, LONG = ("int32", "uint32", "sint32"), ("int64", "uint64", "sint64")
BITS: tuple[Literal[32, 64], ...] = (32, 64)


def _message(file: Any, name: str, *fields: tuple[int, str, str]) -> None:
    made = file.message_type.add(name=name)
    for number, field, kind in fields:
        repeated = kind.startswith("repeated ")
        kind = kind.removeprefix("repeated ")
        label = FIELD.LABEL_REPEATED if repeated else FIELD.LABEL_OPTIONAL
        added = made.field.add(name=field, number=number, type=_TYPES[kind], label=label)
        if kind == "Order":
            added.type_name = ".shop.Order"


@pytest.fixture(scope="module")
def orders() -> ServiceDescriptor:
    file = descriptor_pb2.FileDescriptorProto(name="shop/orders.proto", package="shop", syntax="proto3")
    _message(
        file, "Order", (1, "topic", "string"), (2, "body", "bytes"), (3, "at", "fixed64"), (4, "n", "uint64")
    )
    _message(
        file,
        "Batch",
        (1, "topic", "string"),
        (2, "orders", "repeated Order"),
        (3, "order", "Order"),
        (4, "ratio", "double"),
        (5, "names", "repeated string"),
    )
    service = file.service.add(name="Orders")
    for name, streams in (("Send", False), ("SendAll", False), ("Follow", True)):
        service.method.add(
            name=name,
            input_type=".shop.Order" if name == "Send" else ".shop.Batch",
            output_type=".shop.Order",
            server_streaming=streams,
        )
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return pool.FindServiceByName("shop.Orders")


def mistakes(orders: ServiceDescriptor | None, methods: dict[str, Method]) -> list[str]:
    with pytest.raises(MethodMapError, match="method map of 'service': ") as caught:
        check(MethodMap("service", methods), [orders] if orders is not None else [])
    return caught.value.mistakes


def test_valid_maps_are_accepted(orders: ServiceDescriptor) -> None:
    check(
        MethodMap(
            "service",
            {
                P + "Send": Method(Role.PUBLISH, topic=(1,), producer=(4,), payload=(2,)),
                P + "SendAll": Method(
                    Role.PUBLISH, topic=(1,), batch=(2,), payload=(2, 2), by_connection=True
                ),
                P + "Follow": Method(Role.DISPATCH, topic=(3, 1), consumer=(1,), payload=(2,), position=(4,)),
            },
        ),
        [orders],
    )


@pytest.mark.parametrize(
    ("name", "method", "words"),
    [
        ("Sned", PUBLISH, ["shop/orders.proto", "did you mean 'Send'"]),
        ("Other", PUBLISH, ["no such method", "Follow, Send, SendAll"]),
        ("Send", Method(Role.PUBLISH, topic=(9,), payload=(2,)), ["topic=(9,)", "no field 9", "1 (topic)"]),
        (
            "Send",
            Method(Role.PUBLISH, topic=(2,), payload=(2, 1)),
            ["topic=(2,)", "a string", "payload=(2, 1)"],
        ),
        ("Send", Method(Role.PUBLISH, topic=(1,), producer=(3,), payload=(2,)), ["producer=(3,)", "fixed"]),
        ("SendAll", Method(Role.PUBLISH, topic=(5,), payload=(3,)), ["topic=(5,)", "repeated"]),
        ("SendAll", Method(Role.PUBLISH, topic=(1,), payload=(2, 2)), ["payload=(2, 2)", "repeated"]),
        ("SendAll", Method(Role.PUBLISH, topic=(1,), batch=(3,), payload=(3, 2)), ["batch=(3,)", "no batch"]),
        ("SendAll", Method(Role.PUBLISH, topic=(1,), payload=(4,)), ["payload=(4,)", "bytes"]),
        (
            "Send",
            Method(Role.PUBLISH, topic=(1,), payload=(2,), headers=(4,), key=(3,), schema=(5,)),
            ["shop.Order.n is no map of strings", "key=(3,)", "name a string or bytes", "no field 5"],
        ),
        (
            "SendAll",
            Method(Role.PUBLISH, topic=(1,), batch=(2,), payload=(2, 2), headers=(2,), schema=(4,)),
            ["headers=(2,): expected a path through the messages of the batch", "schema=(4,): expected"],
        ),
        ("Follow", Method(Role.DISPATCH, topic=(1,), payload=(2,), key=(1,)), ["role DISPATCH has no key"]),
        ("Send", Method(Role.DISPATCH, topic=(1,), payload=(2,)), ["role DISPATCH", "does not stream"]),
        ("Follow", Method(Role.SUBSCRIBE, topic=(1,)), ["streams its responses"]),
        (
            "Follow",
            Method(Role.DISPATCH, topic=(1,), payload=(2,), published=(3,)),
            ["published=(3,)", "shop.Order.at"],
        ),
    ],
)
def test_mismatches_with_the_descriptor_are_reported(
    orders: ServiceDescriptor, name: str, method: Method, words: list[str]
) -> None:
    told = "\n".join(mistakes(orders, {P + name: method}))
    assert f"{P}{name}: " in told
    assert [word for word in words if word not in told] == []


@pytest.mark.parametrize(
    ("kind", "id_bits", "words"),
    [
        *[(kind, 64, "has 32 bits, and servers take those of a larger number; say") for kind in SHORT],
        *[(kind, 32, "has 64 bits; take out id_bits=32") for kind in LONG],
        *[(kind, 32, "") for kind in (*SHORT, "string")],
        *[(kind, 64, "") for kind in (*LONG, "string")],
        *[(kind, bits, "is of another type") for kind in ("bool", "fixed32", "fixed64") for bits in BITS],
    ],
)
def test_ids_are_as_wide_as_servers_read_them(kind: str, id_bits: Literal[32, 64], words: str) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="ids.proto", package="ids", syntax="proto3")
    _message(file, "Sent", (1, "topic", "string"), (2, "producer", kind), (3, "body", "bytes"))
    file.service.add(name="Ids").method.add(name="Send", input_type=".ids.Sent", output_type=".ids.Sent")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    method = Method(Role.PUBLISH, topic=(1,), producer=(2,), payload=(3,), id_bits=id_bits)
    sent = MethodMap("service", {"/ids.Ids/Send": method})
    if not words:
        check(sent, [pool.FindServiceByName("ids.Ids")])
        return
    with pytest.raises(MethodMapError, match=re.escape(f"producer=(2,): ids.Sent.producer {words}")):
        check(sent, [pool.FindServiceByName("ids.Ids")])


@pytest.mark.parametrize(
    ("method", "words"),
    [
        (Method(Role.PUBLISH, payload=(1,)), ["lacks producer or topic", "ATTACH_PRODUCER"]),
        (Method(Role.PUBLISH, topic=(1,)), ["no payload", "size_of='message'"]),
        (Method(Role.PUBLISH, producer=(1,), payload=(2,)), ["no topic", "ATTACH_PRODUCER"]),
        (Method(Role.DISPATCH, consumer=(1,), payload=(2,)), ["no topic", "SUBSCRIBE"]),
        (Method(Role.DISPATCH, topic=(1,), payload=(2,), message_topic=(3,)), ["give both", "by the id"]),
        (Method(Role.PUBLISH, topic=(1,), payload=(2,), consumer=(3,)), ["consumer=(3,)", "has no consumer"]),
        (Method(Role.PUBLISH, topic=(0,), payload=(2,)), ["topic=(0,)", "field numbers"]),
        (Method(Role.PUBLISH, topic=(1,), payload=(1,)), ["is topic already"]),
        (
            Method(Role.PUBLISH, topic=(1,), batch=(2,), payload=(3,)),
            ["payload=(3,)", "through the messages"],
        ),
        (
            Method(Role.PUBLISH, topic=(2, 1), batch=(2,), payload=(2, 3)),
            ["topic=(2, 1)", "of which there are many"],
        ),
        (Method(Role.PUBLISH, topic=(1,), batch=(2, 1), payload=(2, 3)), ["batch=(2, 1)", "one number"]),
        (
            Method(Role.PUBLISH, topic=(1,), producer=(3,), payload=(2,), by_connection=True),
            ["by_connection"],
        ),
        (Method(Role.PUBLISH, topic=(1,), producer=(3,), payload=(2,), name=(4,)), ["name=(4,)"]),
        (Method(Role.ATTACH_PRODUCER, producer=(1,)), ["lacks topic"]),
        (Method(Role.SUBSCRIBE, consumer=(1,)), ["lacks topic"]),
        (Method(Role.ACKNOWLEDGE, topic=(1,)), ["lacks position"]),
        (Method(Role.KEEP_ALIVE), ["lacks attachment"]),
        (Method(Role.DETACH, topic=(1,)), ["lacks attachment or consumer or producer"]),
        (Method(Role.PASS, topic=(1,)), ["has no topic"]),
    ],
)
def test_contradictions_are_reported_without_a_descriptor(method: Method, words: list[str]) -> None:
    told = "\n".join(mistakes(None, {"/un.Known/Method": method}))
    assert [word for word in words if word not in told] == []


@pytest.mark.parametrize("name", ["Send", "/Send", "shop.Orders/Send", "/shop.Orders/", "/a b/c"])
def test_malformed_method_names_are_reported(name: str) -> None:
    assert "'/package.Service/Method'" in "\n".join(mistakes(None, {name: PUBLISH}))


def test_every_interceptor_and_driver_checks_its_map_on_creation(orders: ServiceDescriptor) -> None:
    wrong = MethodMap("service", {P + "Sned": PUBLISH})
    with engine() as made:
        for make in (
            aio.PolicyServerInterceptor,
            aio.policy_client_interceptors,
            sync.PolicyServerInterceptor,
            sync.PolicyClientInterceptor,
        ):
            with pytest.raises(MethodMapError, match="Sned"):
                make(made, wrong, services=[orders])
            make(made, wrong)  # nothing is known of the service


def test_the_default_pool_is_used_without_a_descriptor() -> None:
    file = descriptor_pb2.FileDescriptorProto(name="pooled/pooled.proto", package="pooled", syntax="proto3")
    _message(file, "Nothing")
    file.service.add(name="Pooled").method.add(
        name="Check", input_type=".pooled.Nothing", output_type=".pooled.Nothing"
    )
    pool: Any = descriptor_pool.Default()
    pool.Add(file)
    with pytest.raises(MethodMapError, match="Chekc"):
        check(MethodMap("service", {"/pooled.Pooled/Chekc": PUBLISH}))
    check(MethodMap("service", {"/pooled.Pooled/OfALaterVersion": Method(Role.PASS)}))


def test_the_map_of_the_other_tests_is_whole() -> None:
    check(MAP)
