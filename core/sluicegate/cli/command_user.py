"""Who runs a command, for the history of policies."""

import getpass
import os


def command_user() -> str:
    """The user's name, or id if it has none, as in containers."""
    try:
        return f"{getpass.getuser()} (command line)"
    except (OSError, KeyError):
        return f"uid {os.getuid()} (command line)"
