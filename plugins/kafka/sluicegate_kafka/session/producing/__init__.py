"""Produce: admission of producers, and of their records."""
