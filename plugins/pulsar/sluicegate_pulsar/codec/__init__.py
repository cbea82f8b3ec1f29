"""Pulsar's wire format: pure functions over bytes with explicit offsets.

A frame starts with its four length bytes; `start` and `stop` are the offsets of the whole frame in a buffer.
Malformed bytes raise `ProtocolError`, never anything else. `pulsar_pb2` is made from `pulsar.proto` by
`generate`; the hot path (SEND and MESSAGE frames) makes no protobuf objects.
"""
