"""Made from sluicegate_danube.proto by `python .ci/generate_protobuf.py`: change that, not this."""

from google.protobuf import descriptor_pool as _descriptor_pool
from google.protobuf.internal import builder as _builder

DESCRIPTOR = _descriptor_pool.Default().AddSerializedFile(
    b'\n\x17sluicegate_danube.proto\x12\x11sluicegate.danube"7\n\x12'
    b'TopicLookupRequest\x12\x12\n\nrequest_id\x18\x01 \x01(\x04\x12\r\n\x05topic\x18'
    b'\x02 \x01(\t"\xcc\x01\n\x13TopicLookupResponse\x12H\n\rresponse_type\x18\x04'
    b' \x01(\x0e21.sluicegate.danube.TopicLookupResponse.Loo'
    b'kupType\x12\x13\n\x0bconnect_url\x18\x05 \x01(\t\x12\x12\n\nbroker_url\x18\x06 \x01(\t'
    b'\x12\r\n\x05proxy\x18\x07 \x01(\x08"3\n\nLookupType\x12\x0c\n\x08Redirect\x10\x00\x12\x0b\n\x07C'
    b'onnect\x10\x01\x12\n\n\x06Failed\x10\x02"\x90\x01\n\x0fProducerRequest\x12\x12\n\nrequ'
    b'est_id\x18\x01 \x01(\x04\x12\x15\n\rproducer_name\x18\x02 \x01(\t\x12\x12\n\ntopic_nam'
    b'e\x18\x03 \x01(\t\x12>\n\x11dispatch_strategy\x18\x06 \x01(\x0e2#.sluicegate.'
    b'danube.DispatchStrategy"\'\n\x10ProducerResponse\x12\x13\n\x0bp'
    b'roducer_id\x18\x02 \x01(\x04"\x1c\n\x05MsgID\x12\x13\n\x0bproducer_id\x18\x01 \x01(\x04"9'
    b'\n\rStreamMessage\x12(\n\x06msg_id\x18\x02 \x01(\x0b2\x18.sluicegate.dan'
    b'ube.MsgID" \n\x12HealthCheckRequest\x12\n\n\x02id\x18\x03 \x01(\x04"0\n\x0cE'
    b'dgeResponse\x12\x10\n\x08accepted\x18\x01 \x01(\x08\x12\x0e\n\x06is_new\x18\x03 \x01(\x08"F\n'
    b'\x0eReplicateBatch\x12\r\n\x05topic\x18\x01 \x01(\t\x12\x10\n\x08messages\x18\x02 \x03(\x0c'
    b'\x12\x13\n\x0blast_offset\x18\x03 \x01(\x04"2\n\x0cReplicateAck\x12\r\n\x05topic\x18\x01'
    b' \x01(\t\x12\x13\n\x0blast_offset\x18\x02 \x01(\x04*1\n\x10DispatchStrategy\x12\x0f\n'
    b'\x0bNonReliable\x10\x00\x12\x0c\n\x08Reliable\x10\x01b\x06proto3'
)
_builder.BuildMessageAndEnumDescriptors(DESCRIPTOR, globals())
_builder.BuildTopDescriptorsAndMessages(DESCRIPTOR, __name__, globals())
