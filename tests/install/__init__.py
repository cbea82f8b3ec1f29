"""Installs from the wheel, one environment for each extra: `tox run -e extras`."""
