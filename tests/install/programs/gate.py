"""Starts `sluicegate run` in front of an embedded backend, for the programs beside this file."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sluicegate.demo.ports import free_ports

TOPICS = {"kafka": "orders", "pulsar": "persistent://public/default/orders", "danube": "/default/orders"}
SMALL, LARGE = bytes(100), bytes(5000)
"""A payload below the limit, and one above it."""


@contextmanager
def gate(system: str, bootstrap: Sequence[str]) -> Iterator[str]:
    """Serve within the block, with messages of at most 1 KiB; gives the address for clients."""
    broker = {
        "name": "main",
        "system": system,
        "bootstrap": list(bootstrap),
        "listen": {"port": free_ports(4)},
    }
    content = {
        "brokers": [broker],
        "policies": {"broker": {"max_message_size": "1KiB"}},
        "admin": {"port": 0},
        "state_dir": "state",
    }
    Path("gateway.yaml").write_text(json.dumps(content))  # JSON is YAML
    program = Path(sys.executable).with_name("sluicegate")
    subprocess.run([program, "check", "gateway.yaml"], check=True)
    with subprocess.Popen(
        [program, "run", "-c", "gateway.yaml"], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        try:
            # sluicegate ready: main on 127.0.0.1:4711; admin on http://127.0.0.1:4712
            yield running.stdout.readline().split(" on ")[1].partition(";")[0]
        finally:
            running.terminate()
            running.wait(60)


def tell(refusal: BaseException) -> None:
    """Print the client's own error: the last line that these programs write."""
    print(f"passed one, refused one: {type(refusal).__name__}: {' '.join(str(refusal).split())}", flush=True)
