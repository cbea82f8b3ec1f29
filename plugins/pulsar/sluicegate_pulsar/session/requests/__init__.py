"""Frames and requests of one connection, whatever they ask."""
