"""Make the Python of each .proto, and its stub: `python .ci/generate_protobuf.py`.

protoc's own Python output refuses to load under the next but one major version of protobuf. The descriptor in
it has no such limit, so that is kept and the check left out.
"""

import re
import sys
import tempfile
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = (
    ROOT / "core/sluicegate/store/metadata/etcd/sluicegate_etcd.proto",
    ROOT / "plugins/danube/sluicegate_danube/admin/topics.proto",
    ROOT / "plugins/danube/sluicegate_danube/sluicegate_danube.proto",
    ROOT / "plugins/pulsar/sluicegate_pulsar/codec/pulsar.proto",
)
_MODULE = '''"""Made from {source} by `python .ci/generate_protobuf.py`: change that, not this."""

from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf.internal import builder as _builder

DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(
{descriptor}
)
_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
'''
_ENUM_ARGUMENT = re.compile(r"_Union\[([\w.]+), str\]")
"""The type of an enum's argument in a stub, which takes any number: of a later version too."""
_LINE = 48
"""Bytes in one line of the descriptor."""


def compiled(source: Path) -> dict[Path, str]:
    """What is made of a .proto: the texts of the module and of its stub, by their paths beside it.

    :raises RuntimeError: when protoc refuses the file; it has said why on standard error.
    """
    include = resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        options = [
            f"-I{source.parent}",
            f"-I{include}",
            f"--pyi_out={out}",
            f"--descriptor_set_out={out}/set",
        ]
        if protoc.main(["protoc", *options, source.name]):
            raise RuntimeError(f"protoc refuses {source.name}")
        (file,) = FileDescriptorSet.FromString((out / "set").read_bytes()).file
        stub = (out / f"{source.stem}_pb2.pyi").read_text()
    _drop_json_names(file.message_type)
    return {
        source.with_name(f"{source.stem}_pb2.py"): _module(
            source.name, file.SerializeToString(deterministic=True)
        ),
        source.with_name(f"{source.stem}_pb2.pyi"): _ENUM_ARGUMENT.sub(r"_Union[\1, int, str]", stub),
    }


def _drop_json_names(messages: Iterable[DescriptorProto]) -> None:
    """A third of the descriptor, and nothing here reads JSON."""
    for message in messages:
        _drop_json_names(message.nested_type)
        for field in message.field:
            field.ClearField("json_name")


def _module(source: str, descriptor: bytes) -> str:
    lines = [f"    {descriptor[at : at + _LINE]!r}" for at in range(0, len(descriptor), _LINE)]
    return _MODULE.format(source=source, descriptor="\n".join(lines))


def main() -> int:
    """Write the files beside each .proto."""
    for source in SOURCES:
        for path, text in compiled(source).items():
            path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
