"""Sluicegate: one policy engine in front of the message brokers that you already run."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sluicegate.hooks import hookimpl

__version__ = "0.1.0"
__all__ = ["__version__", "hookimpl"]


def __getattr__(name: str) -> Any:
    """Import what plugins need when one asks for it: commands that load no plugin start faster without."""
    if name != "hookimpl":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from sluicegate.hooks import hookimpl

    return hookimpl
