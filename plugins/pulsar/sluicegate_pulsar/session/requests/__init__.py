"""Frames and requests of one connection, of all kinds."""
