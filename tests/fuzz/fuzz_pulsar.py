"""Feed the Pulsar codec with what atheris makes up.

`pip install atheris && python -m tests.fuzz.fuzz_pulsar`; not part of the test run. Any exception but
ProtocolError is a finding.
"""

import contextlib
import sys

import atheris  # type: ignore[import-untyped]  # installed only for fuzzing

with atheris.instrument_imports(include=["sluicegate_pulsar.codec"]):
    from tests.pulsar.codec.targets import TARGETS

    from sluicegate_pulsar.codec.errors import ProtocolError


def feed(raw: bytes) -> None:
    """One input: the first byte chooses the reader, and whether the frame's size holds."""
    if len(raw) < 5:
        return
    target = TARGETS[raw[0] // 2 % len(TARGETS)]
    frame = raw[1:] if raw[0] % 2 else (len(raw) - 5).to_bytes(4) + raw[5:]
    with contextlib.suppress(ProtocolError):
        target(frame, 0, len(frame))


if __name__ == "__main__":
    atheris.Setup(sys.argv, feed)
    atheris.Fuzz()
