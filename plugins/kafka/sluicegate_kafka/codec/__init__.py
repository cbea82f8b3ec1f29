"""Kafka's wire format: pure functions over bytes with explicit offsets.

Frames are without their four length bytes unless a docstring says otherwise. Malformed bytes raise
`ProtocolError`, never anything else. Only what policies ask about is read; everything else is skipped in
place.
"""
