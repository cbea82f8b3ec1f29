"""Produce: who publishes what, and whether it may."""
