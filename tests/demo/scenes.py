"""What unit tests of the demo need: scenes nobody plays, and rows of a decision log written by hand."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from sluicegate.broker import Extra
from sluicegate.demo.clients import DemoClient
from sluicegate.demo.scene import Backend, Front, Observation, Scene, Seen, SharedBroker, Stage, Verdict
from sluicegate.demo.topic_log import TopicLog

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
BEGAN_S = BEGAN.timestamp()

ROW: Mapping[str, Any] = {
    "system": "kafka",
    "topic": "demo.t",
    "operation": "publish",
    "policy": None,
    "action": "allow",
    "messages": 1,
    "bytes": 1_000,
    "delay": None,
    "current": None,
    "limit": None,
    "factor": None,
    "subscription": None,
    "decision_id": None,
}


def row(at: float, action: str = "allow", policy: str | None = None, **more: Any) -> dict[str, Any]:
    """A row of the decision log.

    :param at: seconds since `BEGAN`.
    """
    return {**ROW, "time": BEGAN + timedelta(seconds=at), "action": action, "policy": policy, **more}


def log(*rows: Mapping[str, Any] | Iterable[Mapping[str, Any]]) -> TopicLog:
    """A topic's log of rows and of several rows at once."""
    found: list[Mapping[str, Any]] = []
    for each in rows:
        found += [each] if isinstance(each, Mapping) else each
    return TopicLog(found)


async def _never(stage: Stage) -> Seen:
    raise AssertionError(stage)


def scene(name: str, **settings: object) -> Scene:
    """A scene on a topic of its own, which is not played."""
    return Scene(name, f"demo.{name}", settings or {"max_message_size": 10}, "nothing happens", _never)


def saw(verdict: Verdict = Verdict.RIGHT, text: str = "seen", error: str = "") -> Observation:
    """What came of a scene."""
    return Observation(verdict, text, error)


def _nobody(front: Front) -> AbstractAsyncContextManager[Backend]:
    raise AssertionError(front)


class NoBroker:
    """A `BrokerDemo` whose scenes are given, and that nobody can connect to."""

    label = "nothing at all"
    client = "no client"
    extra = Extra("nothing", {})
    shared = SharedBroker("orders", "noisy", _nobody)

    def __init__(self, *scenes: Scene) -> None:
        self.scenes = scenes

    @asynccontextmanager
    async def backend(self) -> AsyncIterator[Backend]:
        yield Backend({"bootstrap": ["127.0.0.1:1"]})

    def clients(self, address: str) -> AbstractAsyncContextManager[DemoClient]:
        raise AssertionError(address)
