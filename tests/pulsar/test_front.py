"""What a front knows before its brokers have told it anything."""

import threading

import pytest
from tests.pulsar.session.wire import Bench

from sluicegate.broker import Listener
from sluicegate_pulsar.cluster.admin import AdminApiError
from sluicegate_pulsar.codec.pulsar_pb2 import MessageMetadata
from sluicegate_pulsar.config import PulsarConfig
from sluicegate_pulsar.front import PulsarFront
from sluicegate_pulsar.session.producers.repacking import Repacking
from sluicegate_pulsar.session.shared.subscriptions import ListSubscriptions


@pytest.mark.parametrize(("strict", "added_ms"), [("auto", 700), ("no", 700), ("yes", 0)])
async def test_delays_suit_any_broker_until_its_settings_are_known(strict: str, added_ms: int) -> None:
    entry = {"name": "p", "system": "pulsar", "bootstrap": ["b:6650"], "listen": {"port": 19_000}}
    admin = {"url": "http://127.0.0.1:1"}
    front = PulsarFront(PulsarConfig.model_validate({**entry, "admin": admin, "strict": strict, "tick": 700}))
    await front.start(Bench())
    session = front.session(_listener(), "10.0.0.1:5000", 1)
    assert session._shared.added_delay_ms == added_ms
    await front.stop()


async def test_an_unreachable_admin_api_is_not_called_for_each_topic(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = {"name": "p", "system": "pulsar", "bootstrap": ["b:6650"], "listen": {"port": 19_000}}
    front = PulsarFront(PulsarConfig.model_validate({**entry, "admin": {"url": "http://127.0.0.1:1"}}))
    await front.start(Bench())
    asked: list[str] = []
    answers: list[AdminApiError | None] = [AdminApiError("there is no such topic", 412), None]

    async def away(topic: str) -> set[str]:
        asked.append(topic)
        if answers and (error := answers.pop(0)) is not None:
            raise error
        raise AdminApiError("connection refused")

    assert front._admin is not None
    monkeypatch.setattr(front._admin, "subscriptions", away)
    for number in range(100):
        await front.answer(ListSubscriptions(f"persistent://a/b/t{number}"))
    await front.stop()

    assert 2 <= len(asked) < 10  # an answer about one topic keeps no other from being asked about
    assert len([line for line in caplog.messages if "cannot list subscriptions" in line]) == len(asked)
    assert front.counters()["subscription_listing_put_off"] == 100 - len(asked)


async def test_payloads_are_unpacked_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    content = b"content " * 1_000
    names: list[str] = []
    run = Repacking.run

    def noted(repacking: Repacking) -> None:
        names.append(threading.current_thread().name)
        run(repacking)

    monkeypatch.setattr(Repacking, "run", noted)
    entry = {"name": "p", "system": "pulsar", "bootstrap": ["b:6650"], "listen": {"port": 19_000}}
    front = PulsarFront(PulsarConfig.model_validate(entry))
    await front.start(Bench())
    payload = Repacking(MessageMetadata.ZSTD, content, None)
    await front.answer(payload)
    unpacked = Repacking(MessageMetadata.ZSTD, payload.result, len(content))
    await front.answer(unpacked)
    await front.stop()

    assert (unpacked.result, unpacked.problem) == (content, "")
    assert {name.startswith("sluicegate-repack") for name in names} == {True}


def _listener() -> Listener:
    return Listener("bootstrap", "127.0.0.1", 19_000, ())
