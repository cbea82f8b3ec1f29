"""The gRPC error of each refusal, code, text and details, is the same at each door."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from danube.proto import DanubeApi_pb2 as pb
from google.rpc.error_details_pb2 import ErrorInfo, QuotaFailure, RetryInfo
from google.rpc.status_pb2 import Status
from tests.conformance.danube_doors import DRIVER
from tests.conformance.danube_stubs import StubDoor, Stubs
from tests.waiting import LONG_S

from sluicegate.testing.conformance import Setup

_ID = re.compile(r" \[sluicegate (\S+)\]$")
_NAMESPACE = "default"


@dataclass(frozen=True, kw_only=True)
class Refused:
    """How the last of three clients of a topic is refused; the topic is named by the policy."""

    policy: str
    setting: object
    text: str
    """Without the decision's id; `T` stands for the topic, `{}` for a number that depends on the time."""
    code: str = "RESOURCE_EXHAUSTED"
    limit: int
    current: int | None = None
    """None if it depends on the time."""
    level: str = "topic"
    more: Mapping[str, object]
    """Further policies."""

    @property
    def topic(self) -> str:
        return f"/{_NAMESPACE}/{self.policy}"


def _refused(policy: str, setting: object, text: str, limit: int, **more: Any) -> Refused:
    fields = {name: more.pop(name) for name in ("code", "current", "level") if name in more}
    return Refused(policy=policy, setting=setting, text=text, limit=limit, more=more, **fields)


_RATE = {"burst_seconds": 200}
REFUSED = (
    _refused(
        "max_producers_per_topic",
        2,
        "Producer limit reached for topic T. Current: 2, Limit: 2. "
        "Wait for existing producers to disconnect or increase max_producers_per_topic policy.",
        2,
        current=2,
    ),
    _refused(
        "max_subscriptions_per_topic",
        2,
        "Subscription limit reached for topic T. Current: 2, Limit: 2. "
        "Delete subscriptions that are no longer used or increase max_subscriptions_per_topic policy.",
        2,
        current=2,
    ),
    _refused(
        "max_consumers_per_topic",
        2,
        "Consumer limit per topic reached for T. Current: 2, Limit: 2. "
        "Wait for existing consumers to disconnect or increase max_consumers_per_topic policy.",
        2,
        current=2,
    ),
    _refused(
        "max_consumers_per_subscription",
        2,
        "Consumer limit per subscription reached on topic T subscription one. Current: 2, Limit: 2. "
        "Wait for existing consumers to disconnect or increase max_consumers_per_subscription policy.",
        2,
        current=2,
        level="namespace",
    ),
    _refused(
        "max_message_size",
        9,
        "Message size exceeds maximum allowed for topic T. Current: 10 bytes, Limit: 9 bytes. "
        "Send smaller messages or increase max_message_size policy.",
        9,
        current=10,
        code="INVALID_ARGUMENT",
    ),
    _refused(
        "max_publish_rate",
        "0.01/s",
        "Publish rate limit exceeded for topic T. Current: {} messages/s, Limit: {} messages/s. "
        "Slow down or increase max_publish_rate policy.",
        0,
        **_RATE,
    ),
    _refused(
        "max_publish_rate_bytes",
        "1B/s",
        "Publish rate limit exceeded for topic T. Current: {} bytes/s, Limit: 1 bytes/s. "
        "Slow down or increase max_publish_rate_bytes policy.",
        1,
        burst_seconds=20,
    ),
)


async def _attempt(stubs: Stubs, refused: Refused, number: int) -> None:
    """What the policy is about, for the n-th time."""
    name, timeout = f"client{number}", LONG_S
    if "subscription" in refused.policy or "consumer" in refused.policy:
        one = "one" if "per_subscription" in refused.policy else name
        shared = pb.ConsumerRequest.Shared
        await stubs.consuming.Subscribe(
            pb.ConsumerRequest(
                topic_name=refused.topic, consumer_name=name, subscription=one, subscription_type=shared
            ),
            timeout=timeout,
        )
        return
    producer = await stubs.producing.CreateProducer(
        pb.ProducerRequest(
            producer_name=name, topic_name=refused.topic, dispatch_strategy=pb.DispatchStrategy.Reliable
        ),
        timeout=timeout,
    )
    size = 10 if "size" not in refused.policy or number == 2 else 9
    ids = pb.MsgID(producer_id=producer.producer_id, topic_name=refused.topic)
    await stubs.producing.SendMessage(
        pb.StreamMessage(msg_id=ids, payload=b"." * size, producer_name=name), timeout=timeout
    )


def _compare(error: grpc.aio.AioRpcError, expected: Refused) -> None:
    text = error.details() or ""
    marked = _ID.search(text)
    assert marked is not None, f"no decision id in {text!r}"
    assert error.code().name == expected.code, text
    pattern = re.escape(
        expected.text.replace(" T ", f" {expected.topic} ").replace(" T.", f" {expected.topic}.")
    )
    assert re.fullmatch(pattern.replace(r"\{\}", r"[\d.]+"), _ID.sub("", text)), (
        f"{text!r}: {expected.text!r}"
    )
    trailers: Mapping[str, Any] = dict(tuple(error.trailing_metadata() or ()))
    status = Status.FromString(trailers["grpc-status-details-bin"])
    assert (status.code, status.message) == (error.code().value[0], text)
    found: dict[str, Any] = {}
    for detail in status.details:
        for kind in (ErrorInfo, RetryInfo, QuotaFailure):
            if detail.Is(kind.DESCRIPTOR):
                found[kind.DESCRIPTOR.name] = kind.FromString(detail.value)
    info = found["ErrorInfo"]
    assert (info.reason, info.domain) == (expected.policy.upper(), "sluicegate")
    metadata = dict(info.metadata)
    current, limit = metadata.pop("current"), metadata.pop("limit")
    assert expected.current is None or current == str(expected.current)
    assert int(float(limit)) == expected.limit
    assert metadata == {
        "topic": expected.topic,
        "policy": expected.policy,
        "level": expected.level,
        "decision_id": marked[1],
    }
    assert ("RetryInfo" in found) is ("rate" in expected.policy)
    assert ("QuotaFailure" in found) is (expected.code != "INVALID_ARGUMENT")


@pytest.mark.seed("S1-010", "S1-020", "S1-023", "S1-100", "S1-101", "S1-103", "S1-104", "S1-122")
@pytest.mark.parametrize("door", ["proxy", "grpc server, aio", "grpc client, aio"])
async def test_each_refusal_has_the_same_code_text_and_details(door: str, tmp_path: Path) -> None:
    policies = {
        "namespaces": [{"name": _NAMESPACE, "max_consumers_per_subscription": 2}],
        "topics": [
            {"name": each.topic, **each.more} | ({each.policy: each.setting} if each.level == "topic" else {})
            for each in REFUSED
        ],
    }
    setup = Setup(tmp_path, policies, {}, tuple(each.topic for each in REFUSED))
    async with DRIVER.doors[door].open(setup) as opened:
        assert isinstance(opened, StubDoor)
        for each in REFUSED:
            for number in range(2):
                await _attempt(opened.stubs, each, number)
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await _attempt(opened.stubs, each, 2)
            _compare(raised.value, each)
