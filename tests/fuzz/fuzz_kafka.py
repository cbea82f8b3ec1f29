"""Feed the Kafka codec with what atheris makes up: `pip install atheris && python -m tests.fuzz.fuzz_kafka`.

Not part of the test run. Any exception but ProtocolError is a finding.
"""

import contextlib
import sys

import atheris  # type: ignore[import-untyped]  # installed only for fuzzing

with atheris.instrument_imports(include=["sluicegate_kafka.codec"]):
    from tests.kafka.codec.targets import TARGETS

    from sluicegate_kafka.codec.errors import ProtocolError


def feed(raw: bytes) -> None:
    """One input: the first two bytes choose the reader and its version."""
    if len(raw) < 2:
        return
    target = TARGETS[raw[0] % len(TARGETS)]
    version = target.versions[raw[1] % len(target.versions)]
    with contextlib.suppress(ProtocolError):
        target.feed(raw[2:], version)


if __name__ == "__main__":
    atheris.Setup(sys.argv, feed)
    atheris.Fuzz()
