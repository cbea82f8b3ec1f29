"""Consuming: who consumes what, and when a message is delivered."""
