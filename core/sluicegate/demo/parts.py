"""What plugins show after the scenes: the comparison report, and whatever else they have."""

from collections.abc import Sequence
from pathlib import Path

from sluicegate.gateway.plugins import Plugins


def show_parts(plugins: Plugins, directory: Path, systems: Sequence[str], plain: bool) -> list[str]:
    """Ask all plugins in turn; one that raises keeps no other from being asked.

    :param directory: the demo's.
    :param systems: kinds of broker that were shown.
    :param plain: no colours, and ASCII only.
    :return: what is not as it should be, a sentence each.
    """
    problems: list[str] = []
    for show in plugins.implementations("sluicegate_demo"):
        try:
            found = show(directory=directory, systems=tuple(systems), plain=plain)
        except Exception as error:  # noqa: BLE001 - told, and the demo fails
            problems.append(
                f"plugin {show.plugin!r} could not show its part: {type(error).__name__}: {error}"
            )
        else:
            problems += found or ()
    return problems
