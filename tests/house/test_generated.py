"""The committed Python of each .proto is what its `generate.py` makes of it."""

from pathlib import Path
from types import ModuleType

import pytest

from sluicegate.store.metadata.etcd import generate as of_etcd
from sluicegate_danube.admin import generate as of_danube
from sluicegate_pulsar.codec import generate as of_pulsar

each_generator = pytest.mark.parametrize(
    "generate", [of_etcd, of_danube, of_pulsar], ids=["etcd", "danube", "pulsar"]
)


@each_generator
def test_the_committed_python_is_what_the_proto_says(generate: ModuleType) -> None:
    folder = Path(generate.__file__ or "").parent
    made, stub = generate.compiled(folder)
    module = made if isinstance(made, str) else generate.module(made)
    name = generate.SOURCE.removesuffix(".proto")
    remedy = f"run python -m {generate.__name__}"
    assert (folder / f"{name}_pb2.py").read_text() == module, remedy
    assert (folder / f"{name}_pb2.pyi").read_text() == stub, remedy


@each_generator
def test_text_that_protoc_refuses(
    generate: ModuleType, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / generate.SOURCE).write_text('syntax = "proto2"; message A { optional B b = 1; }')
    with pytest.raises(RuntimeError, match=f"protoc refuses {generate.SOURCE}"):
        generate.compiled(tmp_path)
    assert '"B" is not defined' in capfd.readouterr().err
