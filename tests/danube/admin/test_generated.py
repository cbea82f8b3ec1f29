"""The committed Python is what the .proto says."""

from pathlib import Path

import pytest

from sluicegate_danube.admin import generate
from sluicegate_danube.admin.topics_pb2 import SubscriptionListResponse, TopicRequest

FOLDER = Path(generate.__file__).parent


def test_the_committed_python_is_what_the_proto_says() -> None:
    module, stub = generate.compiled(FOLDER)
    assert (FOLDER / "topics_pb2.py").read_text() == module, "run admin.generate"
    assert (FOLDER / "topics_pb2.pyi").read_text() == stub, "run admin.generate"


def test_the_bytes_are_those_of_danube() -> None:
    """TopicRequest.name and SubscriptionListResponse.subscriptions are both field 1 in DanubeAdmin.proto."""
    assert TopicRequest(name="/d/t").SerializeToString() == b"\x0a\x04/d/t"
    assert SubscriptionListResponse(subscriptions=["a", "b"]).SerializeToString() == b"\x0a\x01a\x0a\x01b"


def test_text_that_protoc_refuses(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "topics.proto").write_text('syntax = "proto3"; message A { B b = 1; }')
    with pytest.raises(RuntimeError, match=r"protoc refuses topics\.proto"):
        generate.compiled(tmp_path)
    assert '"B" is not defined' in capfd.readouterr().err
