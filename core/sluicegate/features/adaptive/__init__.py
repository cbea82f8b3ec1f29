"""Adaptive publish throttling: an experimental controller that lowers publish rates under pressure."""
