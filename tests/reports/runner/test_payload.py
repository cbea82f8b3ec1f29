"""The stamp in front of each payload."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_reports.runner.payload import Stamp, read, write

stamps = st.builds(
    Stamp,
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**16 - 1),
    st.integers(0, 2**48 - 1),
    st.integers(0, 2**60),
)


@given(stamp=stamps, size=st.integers(20, 200))
def test_written_payloads_are_read_back(stamp: Stamp, size: int) -> None:
    content = write(stamp, size)
    assert len(content) == size
    assert read(content) == stamp


@pytest.mark.parametrize("content", [b"", bytes(19), bytes(20), b"something that others have written"])
def test_foreign_payloads_are_ignored(content: bytes) -> None:
    assert read(content) is None
