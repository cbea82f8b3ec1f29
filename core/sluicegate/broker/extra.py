"""What a driver needs besides the base installation."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True, slots=True)
class Extra:
    """What a driver needs besides the base installation; a driver has it as its attribute `extra`.

    The gateway skips a driver whose modules are missing; a driver must therefore be importable without them.
    """

    name: str
    """What to install, as pip takes it: `sluicegate[danube]`."""
    modules: Mapping[str, str]
    """The modules that the driver imports, each with the distribution that contains it."""

    def missing(self) -> list[str]:
        """The distributions that are not installed."""
        return [name for module, name in self.modules.items() if not _is_installed(module)]

    @property
    def remedy(self) -> str:
        """The command that installs them."""
        return f"pip install {self.name!r}"


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # its parent package is missing
        return False
