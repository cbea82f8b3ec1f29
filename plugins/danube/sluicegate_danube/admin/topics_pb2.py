"""Made from topics.proto by `python .ci/generate_protobuf.py`: change that, not this."""

from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf.internal import builder as _builder

DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(
    b'\n\x0ctopics.proto\x12\x17sluicegate.danube.admin"\x1c\n\x0cTopic'
    b'Request\x12\x0c\n\x04name\x18\x01 \x01(\t"1\n\x18SubscriptionListRespons'
    b'e\x12\x15\n\rsubscriptions\x18\x01 \x03(\t"\x07\n\x05Empty"+\n\x15NamespaceLi'
    b'stResponse\x12\x12\n\nnamespaces\x18\x01 \x03(\t" \n\x10NamespaceReque'
    b'st\x12\x0c\n\x04name\x18\x01 \x01(\t""\n\x0ePolicyResponse\x12\x10\n\x08policies\x18\x01'
    b' \x01(\tb\x06proto3'
)
_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
