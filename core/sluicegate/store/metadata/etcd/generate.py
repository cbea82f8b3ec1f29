"""Make `sluicegate_etcd_pb2.py` and its stub from `sluicegate_etcd.proto`.

Run `python -m sluicegate.store.metadata.etcd.generate`. Needs grpcio-tools, at development time only.
"""

import sys
import tempfile
from pathlib import Path

from google.protobuf.descriptor_pb2 import FileDescriptorSet

SOURCE = "sluicegate_etcd.proto"
# Not protoc's own Python: that refuses to load under the next but one major version of protobuf.
_MODULE = '''"""Made from {source} by `generate.py` beside it: change that, not this."""

from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf.internal import builder as _builder

DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(
    {descriptor}
)
_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
'''


def compiled(folder: Path) -> tuple[str, str]:
    """What is made of the .proto: the texts of the module and of its stub.

    :param folder: where `sluicegate_etcd.proto` is.
    :raises RuntimeError: when protoc refuses the file; it has said why on standard error.
    """
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory() as name:
        out = Path(name)
        arguments = [f"-I{folder}", f"--pyi_out={out}", f"--descriptor_set_out={out}/set"]
        if protoc.main(["protoc", *arguments, SOURCE]):
            raise RuntimeError(f"protoc refuses {SOURCE}")
        (file,) = FileDescriptorSet.FromString((out / "set").read_bytes()).file
        descriptor = repr(file.SerializeToString(deterministic=True))
        return _MODULE.format(source=SOURCE, descriptor=descriptor), (
            out / "sluicegate_etcd_pb2.pyi"
        ).read_text()


def main() -> int:
    """Write both files beside the .proto."""
    folder = Path(__file__).parent
    module, stub = compiled(folder)
    (folder / "sluicegate_etcd_pb2.py").write_text(module)
    (folder / "sluicegate_etcd_pb2.pyi").write_text(stub)
    return 0


if __name__ == "__main__":
    sys.exit(main())
