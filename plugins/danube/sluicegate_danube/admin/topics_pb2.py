"""Made from topics.proto by `python -m sluicegate_danube.admin.generate`: change that, not this."""

from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf.internal import builder as _builder

DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(
    b'\n\x0ctopics.proto\x12\x17sluicegate.danube.admin""\n\x0cTopicRequest\x12\x12\n\x04name\x18\x01 \x01(\tR\x04name"@\n\x18SubscriptionListResponse\x12$\n\rsubscriptions\x18\x01 \x03(\tR\rsubscriptionsb\x06proto3'
)
_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
