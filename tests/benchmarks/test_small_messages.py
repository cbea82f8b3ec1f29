"""What `benchmarks/against.py` replays: the relay passes all of it on, and refuses nothing."""

import json
import logging
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Self

import pytest
from benchmarks import against_cli
from benchmarks.harness import replay_worker, small_messages, trees
from benchmarks.harness.conversation import Conversation, pipelined
from benchmarks.harness.fake_transport import FakeTransport
from benchmarks.harness.jars import ROOT

_COUNT = 150
_GRPC_OK = b"\0\x0bgrpc-status\x010"


class Recording(FakeTransport):
    """Keeps what it is given to send."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = bytearray()

    def write(self, data: bytes) -> None:
        super().write(data)
        self.sent += data


async def _replay(conversation: Conversation, directory: Path) -> tuple[bytes, bytes]:
    """What broker and client were sent, after the opening."""
    stored = json.loads(conversation.as_json())
    async with replay_worker.serving(stored, directory, Recording) as replay:
        assert await replay.once() > 0
        broker, client = replay.broker, replay.client
        assert isinstance(broker, Recording)
        assert isinstance(client, Recording)
        return bytes(broker.sent), bytes(client.sent)


def _said(conversation: Conversation, *, by_client: bool) -> bytes:
    return b"".join(data for is_client, data in conversation.reads if is_client is by_client)


@pytest.mark.parametrize("make", [small_messages.kafka_produce, small_messages.pulsar_send])
async def test_every_message_and_every_acknowledgement_passes_unchanged(
    make: Callable[[int], Conversation], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)  # the gateway tells that no broker answers
    conversation = make(_COUNT)
    to_broker, to_client = await _replay(conversation, tmp_path)
    assert to_broker.endswith(_said(conversation, by_client=True))
    assert to_client.endswith(_said(conversation, by_client=False))


async def test_every_call_reaches_the_broker_and_ends_well(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    to_broker, to_client = await _replay(small_messages.grpc_unary(_COUNT), tmp_path)
    assert to_broker.count(b"/danube.ProducerService/SendMessage") == _COUNT
    assert to_client.count(_GRPC_OK) == 1 + _COUNT  # the producer was made before


def test_no_more_requests_than_configured_are_in_flight() -> None:
    reads = pipelined([b"q"] * 500, [b"a"] * 500, 5, 0.7)
    sent = answered = most = 0
    for is_client, data in reads:
        sent, answered = sent + is_client * len(data), answered + (not is_client) * len(data)
        assert 0 <= sent - answered <= 5
        most = max(most, sent - answered)
    assert (sent, answered, most) == (500, 500, 5)
    assert reads == pipelined([b"q"] * 500, [b"a"] * 500, 5, 0.7)


def test_a_process_replays_in_the_tree_that_it_is_given(tmp_path: Path) -> None:
    stored = tmp_path / "conversation"
    stored.write_text(small_messages.pulsar_send(_COUNT).as_json())
    with trees.ReplayProcess(ROOT, stored) as process:
        process.wait_ready()
        turn = process.replay()
    assert turn.cpu_ns > 0
    assert min(turn.sent_bytes) > 0


def test_trees_that_send_something_else_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = {"old": trees.Turn(100, (1_000, 500)), "new": trees.Turn(50, (1_000, 400))}

    class Process:
        def __init__(self, tree: Path, _: Path) -> None:
            self.replay = lambda: turns[tree.name]
            self.wait_ready = lambda: None

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(trees, "ReplayProcess", Process)
    named = {"old": Path("old"), "new": Path("new")}
    with pytest.raises(RuntimeError, match=r"new sends \(1000, 400\) bytes .*, not \(1000, 500\)"):
        trees.ratios(named, "old", Path("stored"), 1)
    turns["new"] = trees.Turn(50, (1_000, 499))
    assert trees.ratios(named, "old", Path("stored"), 2) == {"new": [0.5, 0.5]}


@pytest.mark.parametrize(("ratio", "code"), [(1.02, 0), (1.04, 1)])
def test_a_ratio_above_the_bound_ends_with_1(
    ratio: float, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(against_cli, "worktree", lambda commit: nullcontext(Path(commit)))
    monkeypatch.setattr(against_cli, "CASES", {"pulsar": lambda: small_messages.pulsar_send(1)})
    monkeypatch.setattr(
        against_cli, "ratios", lambda *_: {"old again": [1.0, 0.9, 1.1], "new": [ratio, 2.0, 0.5]}
    )
    assert against_cli.main(["c0ffee", "--processes", "2", "--at-most", "1.03"]) == code
    assert re.search(rf"pulsar +1\.000 \(.*\) +{ratio:.3f} \(", capsys.readouterr().out)
