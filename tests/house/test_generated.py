"""The committed Python of each .proto is what `.ci/generate_protobuf.py` makes of it."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
_SPEC = importlib.util.spec_from_file_location("generate_protobuf", ROOT / ".ci" / "generate_protobuf.py")
assert _SPEC is not None
assert _SPEC.loader is not None
generate: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(generate)


def test_every_proto_is_known() -> None:
    found = {path for room in ("core", "plugins") for path in (ROOT / room).rglob("*.proto")}
    assert found == set(generate.SOURCES)


@pytest.mark.parametrize("source", generate.SOURCES, ids=lambda source: source.name)
def test_the_committed_python_is_what_the_proto_says(source: Path) -> None:
    for path, text in generate.compiled(source).items():
        assert path.read_text() == text, "run python .ci/generate_protobuf.py"


def test_text_that_protoc_refuses(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "broken.proto"
    source.write_text('syntax = "proto2"; message A { optional B b = 1; }')
    with pytest.raises(RuntimeError, match=r"protoc refuses broken\.proto"):
        generate.compiled(source)
    assert '"B" is not defined' in capfd.readouterr().err
