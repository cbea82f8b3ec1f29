"""Sluicegate: one policy engine in front of the message brokers that you already run."""

from sluicegate.hooks import hookimpl

__version__ = "0.1.0"
__all__ = ["__version__", "hookimpl"]
