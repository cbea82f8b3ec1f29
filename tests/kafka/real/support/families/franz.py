"""franz-go, by a program in Go; its idempotent producer alone."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.kafka.real.support.families.base import ANSWER_S, values_of
from tests.kafka.real.support.history import ClientLog

PROGRAM = Path(__file__).parents[5] / "deploy" / "franz-go" / "target" / "franz-go"


def why_missing() -> str | None:
    """What is missing to run it, in words; None if nothing."""
    return (
        None if PROGRAM.exists() else f"{PROGRAM} is missing: `make franz-go` builds it with Go 1.19 or later"
    )


def publish(bootstrap: str, topic: str, pads: Sequence[int], *, batch_bytes: int) -> ClientLog:
    """Publish records with so many bytes of padding, and note what the client said of each.

    :param batch_bytes: of a batch, at most.
    """
    log = ClientLog()
    values = [value.decode() for value in values_of(log, "franz-go", pads)]
    order = {
        "bootstrap": bootstrap,
        "topic": topic,
        "lane": "franz-go",
        "values": values,
        "batch_size": batch_bytes,
    }
    ended = subprocess.run(
        [PROGRAM], input=json.dumps(order), capture_output=True, text=True, check=False, timeout=ANSWER_S
    )
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    for number in said["stored"]:
        log.ack(log.sent[int(number)])
    for number, reason in said["failed"].items():
        log.error(log.sent[int(number)], reason)
    return log
