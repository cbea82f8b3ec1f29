"""What a conversation costs in the relay of one source tree; a process, as each has its own `sluicegate`.

`python -P -m benchmarks.harness.replay_worker FILE` prints in which folder its `sluicegate` is. For each line
of its standard input it replays the conversation of the file once, and prints CPU time in ns and how many
bytes the broker and the client were sent.
"""

import asyncio
import json
import logging
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvloop

import sluicegate
from benchmarks.harness.fake_transport import FakeTransport
from benchmarks.harness.replaying import QuietWorker, Replay, begin_collecting
from sluicegate.config.load import load
from sluicegate.model import PolicySet
from sluicegate.runtime.log_sink import LogSink
from sluicegate.runtime.plugins import load_plugins

_BOOTSTRAP = "127.0.0.1:9"
"""Nothing answers there, and nothing needs to."""


@asynccontextmanager
async def serving(
    conversation: Mapping[str, Any], directory: Path, transport: Callable[[], FakeTransport] = FakeTransport
) -> AsyncIterator[Replay]:
    """A conversation to replay in a worker with its policies and a decision log.

    :param directory: for the worker's files.
    :param transport: makes the ends of a connection.
    """
    entry: dict[str, Any] = {
        "name": "benchmark",
        "system": conversation["system"],
        "listen": {"port": 19_000},
    }
    entry["bootstrap"] = [_BOOTSTRAP]
    if entry["system"] == "pulsar":
        entry["admin"] = {"url": f"http://{_BOOTSTRAP}"}
    path = directory / "gateway.yaml"
    policies = {"broker": conversation["policies"]}
    path.write_text(
        json.dumps({"brokers": [entry], "policies": policies, "state_dir": str(directory / "state")})
    )
    plugins = load_plugins(())
    models = [driver.config_model for driver in plugins.drivers.values()]
    loaded = load(path, plugins.policy_models, models, {})
    broker = loaded.config.brokers[0]
    sink = LogSink(loaded.config, broker, plugins, compacting=False)
    worker = QuietWorker(broker, plugins, PolicySet(1, tuple(loaded.policy_layers)), sink.sink)
    descriptor = os.open(os.devnull, os.O_RDONLY)
    try:
        await worker.start()
        yield Replay(worker, conversation, descriptor, transport)
    finally:
        os.close(descriptor)
        await worker.stop()
        await sink.close()


async def _main(conversation: Mapping[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with serving(conversation, Path(directory)) as replay:
            await replay.once()
            begin_collecting()
            print(Path(sluicegate.__file__).parents[1], flush=True)
            while await asyncio.to_thread(sys.stdin.readline):
                spent_ns = await replay.once()
                print(spent_ns, replay.broker.sent_bytes, replay.client.sent_bytes, flush=True)


if __name__ == "__main__":
    logging.disable()  # that nothing answers is known
    uvloop.run(_main(json.loads(Path(sys.argv[1]).read_text())))
