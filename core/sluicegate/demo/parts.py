"""Lets plugins add output after the scenes, such as the comparison report."""

from collections.abc import Sequence
from pathlib import Path

from sluicegate.runtime.plugins import Plugins


def show_parts(plugins: Plugins, directory: Path, systems: Sequence[str], plain: bool) -> list[str]:
    """Call all plugins in turn, even if one raises.

    :param directory: the demo's directory.
    :param systems: kinds of broker that were shown.
    :param plain: no colours, and ASCII only.
    :return: the problems, a sentence each.
    """
    problems: list[str] = []
    for show in plugins.implementations("sluicegate_demo"):
        try:
            of_part = show(directory=directory, systems=tuple(systems), plain=plain)
        except Exception as error:  # noqa: BLE001 - reported, and the demo fails
            problems.append(
                f"plugin {show.plugin!r} could not show its part: {type(error).__name__}: {error}"
            )
        else:
            problems += of_part or ()
    return problems
