"""Consuming: admission of consumers, and delivery of messages."""
