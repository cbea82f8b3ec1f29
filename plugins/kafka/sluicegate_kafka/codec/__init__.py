"""Kafka's wire format: pure functions over bytes with explicit offsets.

Frames are without their four length bytes unless a docstring says otherwise. What is malformed raises
`ProtocolError`, never anything else. Only what policies ask about is read; all else is stepped over in place.
"""
