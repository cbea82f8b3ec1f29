"""Moved to tests.real.certificates."""

from tests.real.certificates import Authority as Authority
from tests.real.certificates import Identity as Identity
