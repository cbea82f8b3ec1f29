"""What commands print; characters that control a terminal leave as escape sequences."""

from sluicegate.output.printing import echo, echo_document, echo_json

__all__ = ["echo", "echo_document", "echo_json"]
