"""Moved to tests.real.ports."""

from tests.real.ports import free_ports as free_ports
from tests.real.ports import free_run as free_run
