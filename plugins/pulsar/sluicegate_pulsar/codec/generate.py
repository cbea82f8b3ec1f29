"""Make `pulsar_pb2.py` and its stub from `pulsar.proto`: `python -m sluicegate_pulsar.codec.generate`.

Needs grpcio-tools, at development time only. protoc's own Python output refuses to load under the next but
one major version of protobuf. The descriptor in it has no such limit, so that is kept and the check left out.
"""

import re
import sys
import tempfile
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorSet

SOURCE = "pulsar.proto"

_MODULE = '''"""Made from {source} by `python -m sluicegate_pulsar.codec.generate`: change that, not this."""

from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf.internal import builder as _builder

DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(
{descriptor}
)
_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
'''
_ENUM_ARGUMENT = re.compile(r"_Union\[([\w.]+), str\]")
"""The type of an enum's argument in a stub, which takes any number: errors.ServerError too."""
_LINE = 48
"""Bytes in one line of the descriptor."""


def compiled(folder: Path) -> tuple[bytes, str]:
    """What protoc makes of the .proto.

    :param folder: where `pulsar.proto` is.
    :returns: the serialized FileDescriptorProto, and the stub.
    :raises RuntimeError: when protoc refuses the file; it has said why on standard error.
    """
    from grpc_tools import protoc

    include = resources.files("grpc_tools") / "_proto"
    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        arguments = [f"-I{folder}", f"-I{include}", f"--pyi_out={out}", f"--descriptor_set_out={out}/set"]
        if protoc.main(["protoc", *arguments, SOURCE]):
            raise RuntimeError(f"protoc refuses {SOURCE}")
        (file,) = FileDescriptorSet.FromString((out / "set").read_bytes()).file
        _drop_json_names(file.message_type)
        stub = _ENUM_ARGUMENT.sub(r"_Union[\1, int, str]", (out / "pulsar_pb2.pyi").read_text())
        return file.SerializeToString(deterministic=True), stub


def _drop_json_names(messages: Iterable[DescriptorProto]) -> None:
    """A third of the descriptor, and nothing here reads JSON."""
    for message in messages:
        _drop_json_names(message.nested_type)
        for field in message.field:
            field.ClearField("json_name")


def module(descriptor: bytes) -> str:
    """The text of `pulsar_pb2.py`."""
    lines = [f"    {descriptor[at : at + _LINE]!r}" for at in range(0, len(descriptor), _LINE)]
    return _MODULE.format(source=SOURCE, descriptor="\n".join(lines))


def main() -> int:
    """Write both files beside the .proto."""
    folder = Path(__file__).parent
    descriptor, stub = compiled(folder)
    (folder / "pulsar_pb2.py").write_text(module(descriptor))
    (folder / "pulsar_pb2.pyi").write_text(stub)
    return 0


if __name__ == "__main__":
    sys.exit(main())
